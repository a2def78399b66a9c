//! Exhaustive check of the document fencing protocol (`ARCHITECTURE.md`, "Replace, delete, fence"): every interleaving of
//! small job sets with duplicate deliveries, one crash, and store calls that land late. The second
//! half leaves one rule out at a time and demands a counterexample, which shows that the rule is
//! needed and that the model would notice its absence. `--nocapture` prints the numbers of states
//! and the counterexamples.

#[path = "fencing_model/harness.rs"]
mod harness;
#[path = "fencing_model/model.rs"]
mod model;
#[path = "fencing_model/protocol.rs"]
mod protocol;
#[path = "fencing_model/rules.rs"]
mod rules;
#[path = "fencing_model/state.rs"]
mod state;
#[path = "fencing_model/store.rs"]
mod store;

use harness::{breaks, breaks_only, delete, holds, holds_with_crashes, put};
use model::{FENCE_HOLDS, NEVER_NEITHER, OWN_VECTORS, RIGHT_END, STABLE_REPORTS};
use rules::Simplification;
use state::Job;
use state::Status::{Deleted, Indexed, MetadataUpdated, Superseded, Unchanged};
use state::Text::{One, Three, Two, Zero};

const ALL: Job = Job::DeleteCorpus;

#[test]
fn replacements_longer_shorter_and_empty() {
    let seen = [Indexed, Superseded];
    holds(&[put(0, Two, 0), put(0, One, 0)], &[1, 2], &seen);
    holds(
        &[put(0, One, 0), put(0, Three, 0), put(0, Two, 0)],
        &[1],
        &seen,
    );
    holds(
        &[put(0, Three, 0), put(0, Zero, 0), put(0, One, 0)],
        &[2],
        &seen,
    );
}

#[test]
fn identical_puts() {
    let seen = [Unchanged, Superseded];
    holds(&[put(0, Two, 0), put(0, Two, 0)], &[1, 2], &seen);
    holds(
        &[put(0, Two, 0), put(0, One, 0), put(0, Two, 0)],
        &[3],
        &[Indexed, Superseded],
    );
    holds(
        &[put(0, Three, 0), put(0, Two, 0), put(0, Two, 0)],
        &[3],
        &seen,
    );
    holds(
        &[put(0, Two, 0), delete(0), put(0, Two, 0)],
        &[3],
        &[Indexed, Deleted, Superseded],
    );
}

#[test]
fn metadata_only_puts() {
    let (before, after) = (put(0, Two, 0), put(0, Two, 1));
    holds(&[before, after], &[2, 2], &[Indexed, MetadataUpdated]);
    holds(
        &[before, after, put(0, One, 0)],
        &[2],
        &[MetadataUpdated, Superseded],
    );
    holds(
        &[before, after, before],
        &[2],
        &[MetadataUpdated, Indexed, Superseded],
    );
    holds(
        &[before, after, after],
        &[3],
        &[MetadataUpdated, Unchanged, Superseded],
    );
}

#[test]
fn deletes() {
    let seen = [Deleted, Indexed, Superseded];
    holds(&[put(0, Two, 0), delete(0)], &[1, 2], &seen);
    holds(&[put(0, Three, 0), delete(0), put(0, One, 0)], &[2], &seen);
    holds(&[delete(0), put(0, Two, 0), delete(0)], &[2], &seen);
}

#[test]
fn corpus_deletes() {
    let seen = [Deleted, Indexed, Superseded];
    holds(&[put(0, Three, 0), ALL, put(0, One, 0)], &[2], &seen);
    holds(&[ALL, put(0, Two, 0), ALL], &[1], &seen);
    holds(&[ALL, put(0, Two, 0), delete(0)], &[1], &seen);
    holds(&[put(0, Two, 0), delete(0), ALL], &[1], &seen);
    // The walk is not atomic: a put newer than the fence may find the row not deleted yet.
    holds(
        &[put(0, Two, 0), ALL, put(0, Two, 0)],
        &[3],
        &[Deleted, Unchanged, Superseded],
    );
}

#[test]
fn corpus_deletes_of_two_documents() {
    let seen = [Deleted, Indexed, Superseded];
    holds(&[put(0, Two, 0), put(1, One, 0), ALL], &[3], &seen);
    holds(&[put(0, Two, 0), ALL, put(1, One, 0)], &[2], &seen);
    holds(
        &[put(1, Two, 0), ALL, put(1, Three, 0), put(0, One, 0)],
        &[],
        &seen,
    );
}

#[test]
fn four_jobs() {
    let (two, other) = (put(0, Two, 0), put(0, Two, 1));
    holds(
        &[two, put(0, Three, 0), put(0, One, 0), two],
        &[],
        &[Indexed, Superseded],
    );
    holds(
        &[two, ALL, two, delete(0)],
        &[],
        &[Deleted, Superseded, Unchanged],
    );
    holds(
        &[two, other, ALL, two],
        &[],
        &[MetadataUpdated, Deleted, Superseded],
    );
    holds(
        &[two, other, put(0, Three, 0), delete(0)],
        &[],
        &[MetadataUpdated, Deleted],
    );
}

#[test]
fn two_crashes() {
    holds_with_crashes(
        2,
        &[put(0, Two, 0), put(0, One, 0)],
        &[1],
        &[Indexed, Superseded],
    );
    holds_with_crashes(
        2,
        &[put(0, Two, 0), put(0, Two, 1)],
        &[2],
        &[MetadataUpdated],
    );
    holds_with_crashes(2, &[put(0, Two, 0), put(1, One, 0), ALL], &[], &[Deleted]);
}

#[test]
fn late_writes_must_be_bounded() {
    let without = Simplification::UnboundedLateWrites;
    breaks(without, RIGHT_END, &[put(0, Two, 0), put(0, One, 0)], &[]);
    breaks(without, RIGHT_END, &[put(0, Two, 0), delete(0)], &[]);
    breaks(without, RIGHT_END, &[put(0, Two, 0), ALL], &[]);
}

#[test]
fn superseded_jobs_must_clean_up() {
    let without = Simplification::NoCleanUpWhenSuperseded;
    breaks(without, RIGHT_END, &[put(0, Two, 0), put(0, One, 0)], &[]);
    breaks(without, RIGHT_END, &[put(0, Two, 0), delete(0)], &[]);
    breaks(without, RIGHT_END, &[put(1, Two, 0), ALL], &[]);
}

#[test]
fn unchanged_needs_a_row_that_no_other_job_has_claimed() {
    let jobs = [put(0, Two, 0), put(0, One, 0), put(0, Two, 0)];
    breaks(Simplification::EqualHashesSuffice, RIGHT_END, &jobs, &[]);
}

#[test]
fn unchanged_needs_a_row_that_is_not_deleted() {
    let jobs = [put(0, Two, 0), delete(0), put(0, Two, 0)];
    breaks(Simplification::TombstoneHashesCount, RIGHT_END, &jobs, &[]);
}

#[test]
fn upserts_must_be_conditional() {
    let without = Simplification::UnconditionalUpsert;
    let jobs = [put(0, Two, 0), put(0, One, 0)];
    breaks(without, RIGHT_END, &jobs, &[]);
    breaks(without, NEVER_NEITHER, &jobs, &[]);
}

/// Step 4's look at the fence keeps an older put from going live between the fence and the walk, if
/// only for a moment. No end depends on it: step 1 has created the row, so the walk finds it, and
/// from then on `s < sequence` says the same.
#[test]
fn step_4_must_check_the_fence() {
    let without = Simplification::NoFenceCheckAtCommit;
    breaks_only(without, FENCE_HOLDS, &[put(0, Two, 0), ALL], &[1, 2]);
    breaks_only(
        without,
        FENCE_HOLDS,
        &[put(0, Two, 0), put(1, One, 0), ALL],
        &[3],
    );
    breaks_only(
        without,
        FENCE_HOLDS,
        &[put(0, Two, 0), ALL, put(0, Two, 0)],
        &[1],
    );
    breaks_only(
        without,
        FENCE_HOLDS,
        &[put(0, Two, 0), put(0, Two, 1), ALL, put(0, Two, 0)],
        &[],
    );
    breaks_only(without, FENCE_HOLDS, &[ALL, put(0, Two, 0), ALL], &[1]);
}

#[test]
fn step_1_must_check_the_fence_and_create_the_row() {
    let jobs = [put(0, Two, 0), ALL];
    breaks(Simplification::NoFenceCheckAtStart, RIGHT_END, &jobs, &[]);
    breaks(Simplification::RowCreatedAtCommit, RIGHT_END, &jobs, &[]);
}

#[test]
fn delete_corpus_must_neither_lower_the_fence_nor_skip_its_own_tombstones() {
    breaks(
        Simplification::FenceCanFall,
        RIGHT_END,
        &[ALL, put(0, Two, 0), ALL],
        &[],
    );
    breaks(
        Simplification::OwnTombstonesSkipped,
        RIGHT_END,
        &[put(0, Two, 0), ALL],
        &[],
    );
}

#[test]
fn step_4_must_repeat_a_stored_result() {
    let jobs = [put(0, Two, 0), put(0, Two, 1)];
    breaks(
        Simplification::CommitReplacesResult,
        STABLE_REPORTS,
        &jobs,
        &[2],
    );
}

#[test]
fn metadata_only_puts_must_keep_vectors_of_their_own_text_only() {
    let jobs = [put(0, Two, 0), put(0, Two, 1), put(0, Three, 0), delete(0)];
    breaks(Simplification::VectorsOfAnyText, OWN_VECTORS, &jobs, &[]);
}

#[test]
fn old_points_must_outlive_the_new_ones() {
    let jobs = [put(0, Two, 0), put(0, One, 0)];
    breaks(
        Simplification::OldPointsRemovedFirst,
        NEVER_NEITHER,
        &jobs,
        &[],
    );
}
