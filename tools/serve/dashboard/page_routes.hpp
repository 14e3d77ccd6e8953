// The addresses of the dashboard.
#pragma once

#include "tools/serve/dashboard/page_frame.hpp"
#include "tools/serve/routes.hpp"

namespace cudal1::serve {

// Pages, forms and events, with their parameters. They have no handlers: the dashboard knows them by their ids.
void add_page_routes(route_table& table);
// The page with this id.
expected<page_parts> page_of(const std::string& id, const page_input& in);

}  // namespace cudal1::serve
