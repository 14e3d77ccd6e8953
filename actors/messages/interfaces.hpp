// The typed interface of every actor, one comment per signature.
#pragma once

#include "actors/messages/inspect.hpp"
#include "actors/messages/messages.hpp"

namespace cudal1 {

// The only writer of the store. Detached: RocksDB blocks. A change is on disk when it is answered.
using store_actor = caf::typed_actor<
    // Stores a task; one that is stored already is not changed.
    answers<message::keep_task, message::done>,
    // Creates an experiment, or those of a search over several models, in one change; the answer has their ids.
    answers<message::create_experiments, message::created_experiments>,
    // Saves an experiment's state and active time.
    answers<message::save_experiment, message::done>,
    // Loads an experiment with its tasks, tallies and unfinished variants; errc::not_found.
    answers<message::load_experiment, message::loaded_experiment>,
    // The experiments whose state is `running`.
    answers<message::list_running, message::running_experiments>,
    // Reserves the next attempt at a variant, and finds a verdict that can be reused; errc::already_exists and
    // errc::variant_fault as for store::reserve.
    answers<message::reserve_attempt, message::reserved>,
    // Ends an attempt without a verdict: lost to an infrastructure fault, not recorded, or withdrawn.
    answers<message::lose_attempt, message::done>,
    // Stores a verdict, and the hack case that it is evidence of.
    answers<message::commit_verdict, message::done>,
    // Stores a baseline, or a judged file.
    answers<message::put_baseline, message::done>, answers<message::put_judged_file, message::done>,
    // Stores a group before its policy is asked; the answer has its id. Closes it. Stores its rewards.
    answers<message::put_group, group_record>, answers<message::close_group, message::done>,
    answers<message::put_rewards, message::done>,
    // Stores an opinion of a suspicious variant.
    answers<message::put_opinion, message::done>,
    // Resets a task's islands: whether there were enough of them.
    answers<message::reset_islands, message::done>,
    // The best confirmed score of a task in an experiment.
    answers<message::best_score, message::best_result>,
    // The state of an experiment's policy; errc::already_exists if it would replace a version that its learner does not
    // know.
    answers<message::save_policy, message::done>, answers<message::load_policy, message::policy_version>,
    // A variant; errc::not_found.
    answers<message::load_variant, variant_record>,
    // Hack cases that are newer than those that the auditor has.
    answers<message::load_hack_cases, message::hack_cases>,
    // What it has been given since it started.
    answers<message::store_metrics_query, message::store_metrics>,
    // A line for the event log.
    takes<message::note_event>,
    // Removes what a step of pruning may remove.
    answers<message::prune_store, prune_report>,
    // Whether the data folder has room: while it has none, no experiments are created and no attempts reserved.
    takes<message::disk_usage>,
    // To itself: writes the pending changes.
    takes<message::tick>>;

// One per experiment: owns the policy that proposes. Detached: a proposal may take long.
using generator_actor = caf::typed_actor<
    // Asks the policy for variants of a task: exemplars, prompt, policy. Answered once the policy has been asked; the
    // proposals follow as messages to the experiment that asked.
    answers<message::propose, message::ticket>,
    // Asks the policy for an opinion of a suspicious variant. Answered once it is stored, with what it took.
    answers<message::give_opinion, answer_cost>,
    // The experiment does not want the rest of them any more.
    takes<message::cancel_ticket>,
    // To itself, from the policy: proposals wait, to be lowered, checked and sent.
    takes<message::policy_delivered>,
    // A new version of the policy, from the learner.
    takes<message::policy_version>>;

// The front of a machine's compilers for one target, one of its workers (detached), and the coordinator, which gives
// programs to the machines that can compile them.
using compiler_actor = caf::typed_actor<
    // Compiles a program to device code. Errors as for kernel_compiler.
    answers<message::compile, shared_code>>;

// One per experiment: updates the policy. Detached: learning takes time.
using learner_actor = caf::typed_actor<
    // A complete group, whose verdicts the store has acknowledged. Answered after any update of the policy: whether
    // there was one.
    answers<message::learn, message::done>>;

// Plans and judges correctness; holds no device.
using verifier_actor = caf::typed_actor<
    // Plans a check.
    answers<message::plan_verification, check_plan>,
    // Judges the report of a check.
    answers<message::judge_report, message::judged>>;

// Plans and evaluates the timing of each lease; holds no device.
using profiler_actor = caf::typed_actor<
    // The first plan of a lease, against the task's best so far.
    answers<message::begin_timing, message::timing_step>,
    // The next one, given the last one's samples.
    answers<message::add_timing, message::timing_step>,
    // The lease is over.
    takes<message::forget_timing>>;

// Turns evidence into verdicts and rewards, and compares variants with the hack cases.
using auditor_actor = caf::typed_actor<
    // The final verdict. With a suspicion, the variant is to be checked more deeply.
    answers<message::audit, verdict>,
    // What the members of a group are paid.
    answers<message::reward_group, message::rewards>>;

// What is asked of the coordinator's store while an evaluation is judged.
using records_actor = caf::typed_actor<
    // The best confirmed score of a task in an experiment.
    answers<message::best_score, message::best_result>,
    // A variant; errc::not_found.
    answers<message::load_variant, variant_record>,
    // Hack cases that are newer than those that the auditor has.
    answers<message::load_hack_cases, message::hack_cases>>;

// One per device: owns its session and runs one evaluation at a time. Detached: everything it does blocks.
using device_actor = caf::typed_actor<
    // An evaluation to run, under a lease. Its result is a work_done to the agent.
    takes<message::work_item>,
    // A client holds it: no memory is kept from one evaluation to the next.
    takes<message::device_held>,
    // Its own timer: retries, and repeats that it is idle.
    takes<message::tick>>;

// One per device on which PyTorch was measured. Detached: it waits for the Python process.
using baseline_actor = caf::typed_actor<
    // A task whose blobs are here is measured, or compared with its model.
    answers<message::measure_baseline, baseline_times>,
    // The device is released: the Python process ends. Answered when it has.
    answers<message::device_held, message::done>>;

// One per experiment.
using experiment_actor = caf::typed_actor<
    // The result of an evaluation; answered when it is in the store. Late and repeated ones are answered too.
    answers<message::work_done, message::done>,
    // From its generator: a proposal that it asked for.
    takes<message::proposed>,
    // Its progress.
    answers<message::progress_query, experiment_progress>,
    // Stops it after what is in flight. Answered at once.
    answers<message::stop_experiment, message::done>,
    // Its policy's actors have died: the new ones, or the error that ends it.
    takes<message::policy_restarted>,
    // No usable device is left.
    takes<message::device_given_up>,
    // Machines have joined or left.
    takes<message::devices_changed>,
    // Its own clock.
    takes<message::tick>>;

// Reads the blobs of the coordinator's machine. Detached: disks block.
using blob_reader_actor = caf::typed_actor<
    // errc::not_found.
    answers<message::read_blob, message::blob_part>>;

// One per machine: its devices, its compilers, and the verifier, profiler and auditor beside them. Detached: it reads
// and writes the blobs of tasks. It speaks for its devices to the coordinator, in the same process or in another
// machine's.
using agent_actor = caf::typed_actor<
    // From the coordinator: a task of the evaluations that follow; an evaluation for a device.
    takes<message::know_task>, takes<message::work_item>,
    // The call in which a device is blocked is to be cancelled; a client holds a device.
    takes<message::cancel_call>, takes<message::device_held>,
    // PyTorch is to be measured on a device that is held, or a task to be compared with its model there.
    answers<message::measure_baseline, baseline_times>,
    // A program to compile for one of its targets; errc::not_found for another target.
    answers<message::compile, shared_code>,
    // The processes of its devices.
    answers<message::processes_query, message::machine_processes>,
    // From a device: it asks for work; a lease needs more time; it has started, or cannot; a lease has ended, answered
    // after the coordinator's acknowledgement.
    takes<message::device_idle>, takes<message::long_evaluation>, takes<message::device_state_changed>,
    answers<message::work_done, message::done>,
    // From its profiler and auditors, answered by the coordinator's store.
    answers<message::best_score, message::best_result>, answers<message::load_variant, variant_record>,
    answers<message::load_hack_cases, message::hack_cases>,
    // From its process, which should end.
    answers<message::retire, message::done>,
    // Its own timer: heartbeats, and joining again.
    takes<message::tick>>;

// Watches the size of the data folder, and keeps it under its quota. Detached: disks block.
using housekeeper_actor = caf::typed_actor<
    // Its own clock.
    takes<message::tick>>;

// Machines, leases, experiments: one per cluster.
using coordinator_actor = caf::typed_actor<
    // From an agent: it joins, is alive, or leaves.
    answers<message::join, message::joined>, answers<message::heartbeat, message::done>,
    answers<message::leave, message::done>,
    // From an agent that lacks the blob of a task.
    answers<message::read_blob, message::blob_part>,
    // From an agent's profiler and auditors: answered by the store.
    answers<message::best_score, message::best_result>, answers<message::load_variant, variant_record>,
    answers<message::load_hack_cases, message::hack_cases>,
    // From an agent, of one of its devices: it asks for work; a lease needs more time; it has started, or cannot; its
    // actor died; a lease has ended, answered after the experiment's acknowledgement.
    takes<message::device_idle>, takes<message::long_evaluation>, takes<message::device_state_changed>,
    takes<message::device_died>, answers<message::work_done, message::done>,
    // From an experiment: a program to compile; an evaluation that is ready for a device.
    answers<message::compile, shared_code>, takes<message::work_item>,
    // From an experiment that should end: takes back what no device has pulled.
    answers<message::withdraw, message::withdrawn>,
    // From an experiment: it is over.
    takes<message::experiment_ended>,
    // From clients.
    answers<message::start_experiment, message::started>, answers<message::progress_query, message::progress_answer>,
    answers<message::stop_experiment, message::done>, answers<message::status_query, node_status>,
    answers<message::drain_machine, message::done>,
    // From a client or the housekeeper: a step of pruning, which spares the experiments that run.
    answers<message::prune_store, prune_report>,
    // From the metrics' server.
    answers<message::node_metrics_query, message::node_metrics>,
    // From a client that measures PyTorch: holds a device, which must be idle; releases it, which ends what is measured
    // there; has a task measured on it or compared with its model, and asks for the result; stores a baseline. That a
    // task agrees with its model is stored before the client is told.
    answers<message::hold_device, device_hold>, answers<message::release_device, message::done>,
    answers<message::begin_baseline, message::done>, answers<message::baseline_query, message::baseline_answer>,
    answers<message::keep_baseline, message::done>,
    // From a client that has judged a Python file: stores it with its task.
    answers<message::keep_judged_file, message::done>,
    // From the process: wait for the devices, resume experiments, drain.
    answers<message::await_devices, node_status>, answers<message::resume_experiments, message::done>,
    answers<message::drain, message::done>,
    // Its own timer: deadlines of leases.
    takes<message::tick>>;

// All types of messages. A new actor must be added here.
using message_types = message_types_of<store_actor, generator_actor, compiler_actor, learner_actor, verifier_actor,
                                       profiler_actor, auditor_actor, device_actor, baseline_actor, blob_reader_actor,
                                       agent_actor, experiment_actor, housekeeper_actor, coordinator_actor>;

// Registers all of them with CAF.
void register_messages(caf::actor_system_config& config);

}  // namespace cudal1
