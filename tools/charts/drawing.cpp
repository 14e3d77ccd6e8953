#include "tools/charts/drawing.hpp"

#include <algorithm>
#include <cstdlib>

#include <fmt/format.h>

#include "tools/charts/escape.hpp"

namespace cudal1::charts {

namespace {

// One decimal is a tenth of a pixel.
std::string number(double value) {
  std::string text = fmt::format("{:.1f}", value);
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  return text == "-0" ? "0" : text;
}

std::string with_hover(const std::string& element, const std::string& name, const std::string& hover) {
  if (hover.empty()) return element + "/>";
  return fmt::format("{}><title>{}</title></{}>", element, escaped(hover), name);
}

// Of a character whose byte this is: whether another one begins there.
bool begins_character(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0) != 0x80;
}

constexpr double character_width = 7.1;  // of 12 pixels, in a wide font

}  // namespace

drawing::drawing(chart_text text, double width, double height)
    : text_(std::move(text)), width_(width), height_(height) {}

void drawing::rectangle(point corner, double width, double height, std::string_view css_class,
                        const std::string& hover) {
  body_ += with_hover(
      fmt::format("<rect class=\"{}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"", css_class, number(corner.x),
                  number(corner.y), number(width > 0 ? width : 0), number(height > 0 ? height : 0)),
      "rect", hover);
}

void drawing::line(point from, point to, std::string_view css_class) {
  body_ += fmt::format("<line class=\"{}\" x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\"/>", css_class, number(from.x),
                       number(from.y), number(to.x), number(to.y));
}

void drawing::path(const std::vector<point>& points, std::string_view css_class) {
  if (points.empty()) return;
  std::string steps;
  for (const auto& p : points)
    steps += fmt::format("{}{},{}", steps.empty() ? "M" : "L", number(p.x), number(p.y));
  body_ += fmt::format("<path class=\"{}\" d=\"{}\"/>", css_class, steps);
}

void drawing::circle(point centre, double radius, std::string_view css_class, const std::string& hover) {
  body_ += with_hover(fmt::format("<circle class=\"{}\" cx=\"{}\" cy=\"{}\" r=\"{}\"", css_class, number(centre.x),
                                  number(centre.y), number(radius)),
                      "circle", hover);
}

void drawing::label(point at, const std::string& text, text_anchor anchor, std::string_view css_class) {
  const std::string_view where = anchor == text_anchor::start    ? ""
                                 : anchor == text_anchor::middle ? " c-mid"
                                                                 : " c-end";
  body_ += fmt::format("<text class=\"{}{}\" x=\"{}\" y=\"{}\">{}</text>", css_class, where, number(at.x), number(at.y),
                       escaped(text));
}

std::string drawing::svg() const {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"chart\" role=\"img\" aria-labelledby=\"{0}-t {0}-d\" "
      "viewBox=\"0 0 {1} {2}\" width=\"{1}\" height=\"{2}\"><title id=\"{0}-t\">{3}</title><desc id=\"{0}-d\">{4}"
      "</desc>{5}</svg>\n",
      text_.id, number(width_), number(height_), escaped(text_.title), escaped(text_.description), body_);
}

std::string chart_style() {
  return R"(.chart{max-width:100%;height:auto;font:12px system-ui,sans-serif}
.c-label{fill:var(--ink,#1c1f23)}.c-muted{fill:var(--muted,#5c6570)}.c-value{fill:var(--ink,#1c1f23)}
.c-value,.c-muted{font-variant-numeric:tabular-nums}.c-strong{fill:var(--ink,#1c1f23);font-weight:600}
.c-mid{text-anchor:middle}.c-end{text-anchor:end}
.c-grid{stroke:var(--rule,#e3e6ea);stroke-width:1}.c-axis{stroke:var(--muted,#5c6570);stroke-width:1}
.c-mark{stroke:var(--muted,#5c6570);stroke-width:1;stroke-dasharray:4 4}
.c-bar{fill:var(--accent,#0072b2)}.c-even{fill:var(--quiet,#a9b1ba)}.c-bad{fill:var(--bad,#c2500a)}
.c-whisker{stroke:var(--ink,#1c1f23);stroke-width:1.4}.c-link{stroke:var(--accent,#0072b2);stroke-width:2;opacity:.45}
.c-dot{fill:var(--accent,#0072b2)}.c-ring{fill:var(--paper,#fff);stroke:var(--muted,#5c6570);stroke-width:1.6}
.c-sample{fill:var(--accent,#0072b2);opacity:.6}.c-sample2{fill:var(--muted,#5c6570);opacity:.6}
.c-curve{fill:none;stroke-width:2;stroke-linejoin:round}
.s0{stroke:var(--accent,#0072b2)}.s1{stroke:#d55e00;stroke-dasharray:7 3}.s2{stroke:#009e73;stroke-dasharray:2 3}
.s3{stroke:#cc79a7;stroke-dasharray:9 3 2 3}.s4{stroke:#b8860b;stroke-dasharray:4 4}
.s5{stroke:var(--muted,#5c6570);stroke-dasharray:1 4}
)";
}

std::string standalone(const std::string& svg) {
  const auto end = svg.find('>');
  if (end == std::string::npos) return svg;
  return svg.substr(0, end + 1) +
         "<style>svg{background:var(--paper)}svg{--ink:#1c1f23;--muted:#5c6570;--rule:#e3e6ea;--accent:#0072b2;"
         "--quiet:#a9b1ba;--bad:#c2500a;--paper:#fff}@media(prefers-color-scheme:dark){svg{--ink:#e8eaed;"
         "--muted:#a2abb5;--rule:#33383f;--accent:#56b4e9;--quiet:#6b747e;--bad:#f08a4b;--paper:#15181c}}\n" +
         chart_style() + "</style>" + svg.substr(end + 1);
}

namespace {

// The number of an attribute of a picture's first element.
double attribute_of(const std::string& picture, const std::string& name) {
  const auto at = picture.find(" " + name + "=\"");
  return at == std::string::npos ? 0 : std::strtod(picture.c_str() + at + name.size() + 3, nullptr);
}

}  // namespace

std::string stacked(const chart_text& text, const std::vector<std::string>& pictures) {
  std::string inside;
  double width = 0, height = 0;
  for (const auto& one : pictures) {
    constexpr std::string_view begin = "<svg";
    if (!one.starts_with(begin)) continue;
    inside += fmt::format("<svg y=\"{}\"", number(height)) + one.substr(begin.size());
    width = std::max(width, attribute_of(one, "width"));
    height += attribute_of(one, "height");
  }
  const std::string empty = drawing(text, width, height).svg();
  const auto end = empty.rfind("</svg>");
  return empty.substr(0, end) + inside + empty.substr(end);
}

std::string shortened(const std::string& text, std::size_t characters) {
  std::size_t count = 0, cut = text.size();
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (!begins_character(text[i])) continue;
    if (count + 1 == characters) cut = i;
    if (++count > characters) return text.substr(0, cut) + "…";
  }
  return text;
}

double label_width(std::string_view text) {
  double count = 0;
  for (const char c : text)
    if (begins_character(c)) ++count;
  return count * character_width;
}

std::string shortened_to_width(const std::string& text, double width) {
  constexpr double rounding = 0.01;  // a text of exactly that width is not cut
  return shortened(text, static_cast<std::size_t>(width / character_width + rounding));
}

}  // namespace cudal1::charts
