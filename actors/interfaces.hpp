// Who answers what: the typed interface of every actor, one comment a signature.
#pragma once

#include "actors/messages.hpp"

namespace cudal1 {

// The only one that writes the store. Detached: RocksDB blocks. What it answers is on disk.
using store_actor = caf::typed_actor<
    // Keeps a task; a task that is known already is not changed.
    answers<message::keep_task, message::done>,
    // A new experiment, with the id that the store gave it.
    answers<message::create_experiment, experiment_record>,
    // An experiment's state and active time.
    answers<message::save_experiment, message::done>,
    // An experiment with its tasks, verdicts and attempts; errc::not_found.
    answers<message::load_experiment, message::loaded_experiment>,
    // The experiments whose state is `running`.
    answers<message::list_running, message::running_experiments>,
    // The next attempt at a variant; errc::already_exists and errc::variant_fault as store::reserve says.
    answers<message::reserve_attempt, attempt_record>,
    // An attempt that an infrastructure fault ended.
    answers<message::lose_attempt, message::done>,
    // A verdict, on disk when this is answered.
    answers<message::commit_verdict, message::done>,
    // A baseline, on disk when this is answered.
    answers<message::put_baseline, message::done>,
    // Correct variants of a task in an experiment, best first.
    answers<message::draw_exemplars, message::exemplars>,
    // The best confirmed score of a task in an experiment.
    answers<message::best_score, message::score>,
    // A policy's state; saving an older version than the stored one changes nothing.
    answers<message::save_policy, message::done>, answers<message::load_policy, message::policy_version>,
    // A line for the event log.
    takes<message::note_event>,
    // To itself: the changes that wait are written.
    takes<message::tick>>;

// One each experiment: owns the policy that proposes. Detached: a policy may think for long.
using generator_actor = caf::typed_actor<
    // A variant for a task: exemplars, policy, lowering, check. errc::not_found where the policy has nothing to
    // propose.
    answers<message::propose, message::proposed>,
    // What the learner published.
    takes<message::policy_version>>;

// The front of a pool of workers, and a worker (detached).
using compiler_actor = caf::typed_actor<
    // Program to device code. Errors as kernel_compiler says.
    answers<message::compile, shared_code>>;

// One each experiment: groups experiences and updates the policy. Detached: learning takes time.
using learner_actor = caf::typed_actor<
    // A verdict that the store has acknowledged. Answered when the policy has (or has not) changed.
    answers<message::learn, message::done>,
    // The experiment is over: groups that are not full are learned from as well. Answered like the above.
    answers<message::learn_rest, message::done>>;

// Plans and judges correctness; holds no device.
using verifier_actor = caf::typed_actor<
    // What to check.
    answers<message::plan_verification, check_plan>,
    // What the answers mean.
    answers<message::judge_report, message::judged>>;

// Plans and reads the timing of each lease; holds no device.
using profiler_actor = caf::typed_actor<
    // The first plan of a lease, against the task's best so far.
    answers<message::begin_timing, message::timing_step>,
    // The next one, given the last one's samples.
    answers<message::add_timing, message::timing_step>,
    // The lease is over.
    takes<message::forget_timing>>;

// Turns evidence into the verdict that counts.
using auditor_actor = caf::typed_actor<answers<message::audit, verdict>>;

// One each device: owns its session and does one evaluation at a time. Detached: everything it does blocks.
using device_actor = caf::typed_actor<
    // An evaluation to do, under a lease. Its answer is a work_done to the node.
    takes<message::work_item>,
    // A client measures on it by itself: no memory is kept from one evaluation to the next.
    takes<message::device_held>,
    // Its own clock: try again, say again that it is idle.
    takes<message::tick>>;

// One each experiment.
using experiment_actor = caf::typed_actor<
    // What came of an evaluation; answered when it is in the store. Late and repeated ones are answered too.
    answers<message::work_done, message::done>,
    // How far it is.
    answers<message::progress_query, experiment_progress>,
    // Ends it: what is in flight ends first. Answered at once.
    answers<message::stop_experiment, message::done>,
    // No device is left to go on with.
    takes<message::device_given_up>,
    // Its own clock.
    takes<message::tick>>;

// Membership, supervision, leases: one each process.
using node_actor = caf::typed_actor<
    // From an experiment: an evaluation that is ready for a device.
    takes<message::work_item>,
    // From a device: it pulls.
    takes<message::device_idle>,
    // From a device: it has started, or cannot.
    takes<message::device_state_changed>,
    // From a device: a lease has ended. Answered after the experiment's acknowledgement.
    answers<message::work_done, message::done>,
    // From an experiment: it is over.
    takes<message::experiment_ended>,
    // From clients.
    answers<message::start_experiment, message::started>, answers<message::progress_query, message::progress_answer>,
    answers<message::stop_experiment, message::done>, answers<message::status_query, node_status>,
    // From a client that measures by itself: a device for it alone, which must be idle; the end of that; what came of
    // it.
    answers<message::hold_device, device_hold>, answers<message::release_device, message::done>,
    answers<message::keep_baseline, message::done>,
    // From the process: wait for the devices, go on with what ran, end.
    answers<message::await_devices, node_status>, answers<message::resume_experiments, message::done>,
    answers<message::drain, message::done>,
    // Its own clock: deadlines of leases.
    takes<message::tick>>;

// What may cross a link. A further actor is named here.
using message_types = message_types_of<store_actor, generator_actor, compiler_actor, learner_actor, verifier_actor,
                                       profiler_actor, auditor_actor, device_actor, experiment_actor, node_actor>;

// Makes CAF know all of them.
void register_messages(caf::actor_system_config& config);

}  // namespace cudal1
