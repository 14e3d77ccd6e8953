// The messages between the actors. A message about an evaluation names its attempt (experiment, task, variant, number)
// and may arrive twice. interfaces.hpp shows which actor answers which message. No CAF: inspect.hpp is how they are
// sent.
#pragma once

#include "actors/messages/common_messages.hpp"
#include "actors/messages/experiment_messages.hpp"
#include "actors/messages/machine_messages.hpp"
#include "actors/messages/policy_messages.hpp"
#include "actors/messages/store_messages.hpp"
#include "actors/messages/verify_messages.hpp"
