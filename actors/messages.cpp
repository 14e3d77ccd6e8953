#include "actors/messages.hpp"

namespace cudal1 {

namespace {

template <class T>
void add(caf::actor_system_config& config, const char* name) {
  config.add_message_type<T>(std::string("cudal1::") + name);
}

}  // namespace

void register_messages(caf::actor_system_config& config) {
  // Answers that are records of other folders.
  add<attempt_record>(config, "attempt_record");
  add<experiment_record>(config, "experiment_record");
  add<check_plan>(config, "check_plan");
  add<verdict>(config, "verdict");
  add<node_status>(config, "node_status");
  add<device_hold>(config, "device_hold");
  add<shared_code>(config, "shared_code");

  add<message::done>(config, "done");
  add<message::tick>(config, "tick");

  add<message::keep_task>(config, "keep_task");
  add<message::create_experiment>(config, "create_experiment");
  add<message::save_experiment>(config, "save_experiment");
  add<message::load_experiment>(config, "load_experiment");
  add<message::loaded_experiment>(config, "loaded_experiment");
  add<message::list_running>(config, "list_running");
  add<message::running_experiments>(config, "running_experiments");
  add<message::reserve_attempt>(config, "reserve_attempt");
  add<message::lose_attempt>(config, "lose_attempt");
  add<message::commit_verdict>(config, "commit_verdict");
  add<message::put_baseline>(config, "put_baseline");
  add<message::draw_exemplars>(config, "draw_exemplars");
  add<message::exemplars>(config, "exemplars");
  add<message::best_score>(config, "best_score");
  add<message::score>(config, "score");
  add<message::save_policy>(config, "save_policy");
  add<message::load_policy>(config, "load_policy");
  add<message::policy_version>(config, "policy_version");
  add<message::note_event>(config, "note_event");

  add<message::propose>(config, "propose");
  add<message::proposed>(config, "proposed");
  add<message::compile>(config, "compile");
  add<message::learn>(config, "learn");
  add<message::learn_rest>(config, "learn_rest");

  add<message::work_item>(config, "work_item");
  add<message::device_idle>(config, "device_idle");
  add<message::device_state_changed>(config, "device_state_changed");
  add<message::work_done>(config, "work_done");
  add<message::progress_query>(config, "progress_query");
  add<message::stop_experiment>(config, "stop_experiment");
  add<message::device_given_up>(config, "device_given_up");
  add<message::experiment_ended>(config, "experiment_ended");
  add<message::hold_device>(config, "hold_device");
  add<message::device_held>(config, "device_held");
  add<message::release_device>(config, "release_device");
  add<message::keep_baseline>(config, "keep_baseline");
  add<message::start_experiment>(config, "start_experiment");
  add<message::started>(config, "started");
  add<message::progress_answer>(config, "progress_answer");
  add<message::status_query>(config, "status_query");
  add<message::await_devices>(config, "await_devices");
  add<message::resume_experiments>(config, "resume_experiments");
  add<message::drain>(config, "drain");

  add<message::plan_verification>(config, "plan_verification");
  add<message::judge_report>(config, "judge_report");
  add<message::judged>(config, "judged");
  add<message::begin_timing>(config, "begin_timing");
  add<message::add_timing>(config, "add_timing");
  add<message::forget_timing>(config, "forget_timing");
  add<message::timing_step>(config, "timing_step");
  add<message::audit>(config, "audit");
}

}  // namespace cudal1
