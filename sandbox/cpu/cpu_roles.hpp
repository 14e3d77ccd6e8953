// The roles of cudal1-worker on `cpu`.
#pragma once

#include "sandbox/isolation/zygote.hpp"

namespace cudal1 {

zygote_roles cpu_roles();

}  // namespace cudal1
