//! Steps 1 to 7 of the protocol in `ARCHITECTURE.md` as functions from state to state; the store's side of steps 3
//! and 5 is in `store.rs`. `generation` and the dropping of collections are not modelled.

use crate::rules::{Protocol, Simplification};
use crate::state::{DOCUMENTS, Job, Point, Row, State, Status, Step, Version};

impl Protocol {
    /// Carries out the step at which a delivery stands.
    pub fn step(&self, state: &mut State, delivery: usize) {
        let job = self.job(delivery);
        match (state.deliveries[delivery].step, job) {
            (Step::Start, Job::DeleteCorpus) => self.raise_fence(state, delivery),
            (Step::Start, Job::Put { document, version }) => {
                self.start_put(state, delivery, document, version);
            }
            (Step::Start, Job::Delete { document }) => {
                self.start_delete(state, delivery, document);
            }
            (Step::Tombstone { document }, _) => self.tombstone(state, delivery, document),
            (Step::ReadVectors, Job::Put { document, version }) => {
                self.read_vectors(state, delivery, document, version);
            }
            (Step::Commit, Job::Put { document, version }) => {
                self.commit(state, delivery, document, version);
            }
            (Step::Write { .. } | Step::CleanUp { .. }, _) => {
                if let Some(call) = self.store_call(state, delivery) {
                    self.apply(state, call);
                }
                state.deliveries[delivery].step = self.after_store_call(state, delivery);
            }
            (Step::Publish, _) => {
                self.publish(state, delivery);
                state.deliveries[delivery].move_to(Step::Done, None);
            }
            (step, job) => unreachable!("{job:?} has no step {step:?}"),
        }
    }

    /// What step 1 finds out about any job of one document: its end, or nothing yet.
    fn settled(&self, s: u8, row: &Row, fence: u8) -> Option<Status> {
        let fenced = s <= fence && !self.omits(Simplification::NoFenceCheckAtStart);
        if s < row.sequence || fenced {
            Some(Status::Superseded)
        } else {
            (s == row.sequence).then_some(row.result)
        }
    }

    fn start_put(&self, state: &mut State, delivery: usize, document: usize, version: Version) {
        let (s, existing) = (self.sequence(delivery), state.documents[document].row);
        let mut row = existing.unwrap_or(Row::NEW);
        let settled = self.settled(s, &row, state.fence);
        if settled.is_none() {
            // Read before this job claims the row itself.
            let quiet = row.claimed <= row.sequence;
            let kept = row.version.filter(|_| {
                (!row.deleted || self.omits(Simplification::TombstoneHashesCount))
                    && (quiet || self.omits(Simplification::EqualHashesSuffice))
            });
            row.claimed = row.claimed.max(s);
            self.start_write(state, delivery, document, kept, version);
            if kept == Some(version) {
                (row.sequence, row.result) = (s, Status::Unchanged);
            }
        }
        if existing.is_some() || !self.omits(Simplification::RowCreatedAtCommit) {
            state.documents[document].row = Some(row);
        }
        if settled.is_some() || row.sequence == s {
            self.finish(
                state,
                delivery,
                document,
                settled.unwrap_or(row.result),
                row.live,
            );
        }
    }

    /// Chooses between a full write and one that keeps vectors; `kept` is the version in place when
    /// nothing newer can have touched its points.
    fn start_write(
        &self,
        state: &mut State,
        delivery: usize,
        document: usize,
        kept: Option<Version>,
        version: Version,
    ) {
        if self.omits(Simplification::OldPointsRemovedFirst) && kept != Some(version) {
            state.documents[document].points = Default::default();
        }
        let metadata_only = kept.is_some_and(|kept| kept.text == version.text);
        let run = &mut state.deliveries[delivery];
        (run.status, run.step) = if metadata_only {
            (Some(Status::MetadataUpdated), Step::ReadVectors)
        } else {
            (Some(Status::Indexed), first_write(version))
        };
    }

    fn start_delete(&self, state: &mut State, delivery: usize, document: usize) {
        let s = self.sequence(delivery);
        let mut row = state.documents[document].row.unwrap_or(Row::NEW);
        let status = self.settled(s, &row, state.fence).unwrap_or_else(|| {
            row = deleted(row, s);
            row.result
        });
        state.documents[document].row = Some(row);
        self.finish(state, delivery, document, status, row.live);
    }

    /// `deleteCorpus`, first transaction. It is never superseded: rows newer than it are left alone
    /// one by one.
    fn raise_fence(&self, state: &mut State, delivery: usize) {
        let s = self.sequence(delivery);
        state.fence = if self.omits(Simplification::FenceCanFall) {
            s
        } else {
            s.max(state.fence)
        };
        let run = &mut state.deliveries[delivery];
        (run.status, run.step) = (Some(Status::Deleted), Step::Tombstone { document: 0 });
    }

    /// `deleteCorpus`, one document: "deleted as above", which for a row that this job has deleted
    /// before it crashed means step 5 again.
    fn tombstone(&self, state: &mut State, delivery: usize, document: usize) {
        let s = self.sequence(delivery);
        let own = !self.omits(Simplification::OwnTombstonesSkipped);
        state.deliveries[delivery].step = match state.documents[document].row.as_mut() {
            Some(row) if row.sequence < s || (row.sequence == s && own) => {
                *row = deleted(*row, s);
                Step::CleanUp {
                    document,
                    live: row.live,
                }
            }
            _ => next_tombstone(document),
        };
    }

    fn read_vectors(&self, state: &mut State, delivery: usize, document: usize, version: Version) {
        let any = self.omits(Simplification::VectorsOfAnyText);
        let kept = |point: &Point| any || point.text == version.text;
        let points = state.documents[document].points;
        let run = &mut state.deliveries[delivery];
        for (vector, point) in run
            .vectors
            .iter_mut()
            .zip(points)
            .take(version.text.chunks())
        {
            *vector = point.filter(kept).map(|point| point.vector);
        }
        run.step = first_write(version);
    }

    fn commit(&self, state: &mut State, delivery: usize, document: usize, version: Version) {
        let (s, fence) = (self.sequence(delivery), state.fence);
        let mut row = state.documents[document].row.unwrap_or(Row::NEW);
        let fenced = s <= fence && !self.omits(Simplification::NoFenceCheckAtCommit);
        let decided = state.deliveries[delivery].status.unwrap_or(Status::Indexed);
        let repeated = s == row.sequence && !self.omits(Simplification::CommitReplacesResult);
        let status = match () {
            () if s < row.sequence || fenced => Status::Superseded,
            // Another delivery of this job was faster. It may have kept vectors where this one
            // embedded, and has reported so.
            () if repeated => row.result,
            () => {
                state.live_below_fence |= s <= fence;
                let claimed = row.claimed.max(s);
                row = Row {
                    sequence: s,
                    claimed,
                    live: s,
                    deleted: false,
                    ..row
                };
                (row.version, row.result) = (Some(version), decided);
                decided
            }
        };
        state.documents[document].row = Some(row);
        self.finish(state, delivery, document, status, row.live);
    }

    /// To step 5 with the status to report.
    fn finish(
        &self,
        state: &mut State,
        delivery: usize,
        document: usize,
        status: Status,
        live: u8,
    ) {
        let skipped =
            status == Status::Superseded && self.omits(Simplification::NoCleanUpWhenSuperseded);
        let step = if skipped {
            Step::Publish
        } else {
            Step::CleanUp { document, live }
        };
        state.deliveries[delivery].move_to(step, Some(status));
    }

    /// The result goes out; the acknowledgement may still be lost with the worker.
    pub fn publish(&self, state: &mut State, delivery: usize) {
        let job = usize::from(self.sequence(delivery)) - 1;
        if let Some(status) = state.deliveries[delivery].status {
            state.reports[job].add(status);
        }
    }
}

fn first_write(version: Version) -> Step {
    if version.text.chunks() == 0 {
        Step::Commit
    } else {
        Step::Write { ordinal: 0 }
    }
}

pub fn next_tombstone(document: usize) -> Step {
    if document + 1 < DOCUMENTS {
        Step::Tombstone {
            document: document + 1,
        }
    } else {
        Step::Publish
    }
}

/// The hashes stay behind: the model takes the harder case, that a tombstone still knows them.
fn deleted(row: Row, s: u8) -> Row {
    let claimed = row.claimed.max(s);
    Row {
        sequence: s,
        claimed,
        live: s,
        deleted: true,
        result: Status::Deleted,
        ..row
    }
}
