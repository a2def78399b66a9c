//! The protocol as a `stateright` model: which steps, crashes and late store calls are possible in
//! a state, and what must hold there.

use stateright::{Model, Property};

use crate::rules::{Protocol, Simplification};
use crate::state::{Delivery, Document, Job, Point, Reports, Row, State, Status, Step, Version};

pub const RIGHT_END: &str = "at rest the store and the row are exactly the newest job's";
pub const NEVER_NEITHER: &str = "readers see old or new chunks, never neither";
pub const OWN_VECTORS: &str = "no chunk has another text's vector";
pub const STABLE_REPORTS: &str = "a job's deliveries report one status, or SUPERSEDED";
pub const FENCE_HOLDS: &str = "no put goes live below the fence";

pub const PROMISES: [&str; 5] = [
    RIGHT_END,
    NEVER_NEITHER,
    OWN_VECTORS,
    STABLE_REPORTS,
    FENCE_HOLDS,
];

/// What may happen to one delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Step(usize),
    /// The worker dies before the step; the job is delivered again from the start.
    Crash(usize),
    /// The worker dies between the result and the acknowledgement.
    PublishAndCrash(usize),
    /// The worker dies, or gives up, while the store call of its step is under way.
    LoseContact(usize),
    /// The store carries such a call out after all.
    Land(usize),
    /// The store never got it.
    Vanish(usize),
}

impl Model for Protocol {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            documents: Default::default(),
            fence: 0,
            deliveries: vec![Delivery::default(); self.deliveries.len()],
            crashes: self.crashes,
            reports: vec![Reports::default(); self.jobs.len()],
            live_below_fence: false,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for (index, delivery) in state.deliveries.iter().enumerate() {
            if delivery.in_flight.is_some() {
                actions.extend([Action::Land(index), Action::Vanish(index)]);
                // NAK delay and ack_wait outlast the store's own limit for a write.
                if !self.omits(Simplification::UnboundedLateWrites) {
                    continue;
                }
            }
            if delivery.step == Step::Done {
                continue;
            }
            actions.push(Action::Step(index));
            if state.crashes == 0 || delivery.step == Step::Start {
                continue;
            }
            actions.push(Action::Crash(index));
            if delivery.step == Step::Publish {
                actions.push(Action::PublishAndCrash(index));
            }
            if self.store_call(state, index).is_some() {
                actions.push(Action::LoseContact(index));
            }
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Step(index) => self.step(&mut state, index),
            Action::Crash(index) => crash(&mut state, index),
            Action::PublishAndCrash(index) => {
                self.publish(&mut state, index);
                crash(&mut state, index);
            }
            Action::LoseContact(index) => {
                let call = self.store_call(last, index);
                crash(&mut state, index);
                state.deliveries[index].in_flight = call;
            }
            Action::Land(index) => {
                if let Some(call) = state.deliveries[index].in_flight.take() {
                    self.apply(&mut state, call);
                }
            }
            Action::Vanish(index) => state.deliveries[index].in_flight = None,
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::always(RIGHT_END, right_end),
            Property::always(NEVER_NEITHER, |_, s: &State| {
                s.documents.iter().all(readable)
            }),
            Property::always(OWN_VECTORS, |_, s: &State| {
                s.documents.iter().all(own_vectors)
            }),
            Property::always(STABLE_REPORTS, |_, s: &State| {
                s.reports.iter().all(|reports| reports.verdicts() <= 1)
            }),
            Property::always(FENCE_HOLDS, |_, s: &State| !s.live_below_fence),
            // Without this one the first would hold in a model that never ends.
            Property::sometimes("at rest", |_, s: &State| s.at_rest()),
        ];
        properties.extend(self.expected.iter().map(|status| reported(*status)));
        properties
    }
}

fn crash(state: &mut State, index: usize) {
    state.deliveries[index].move_to(Step::Start, None);
    state.crashes -= 1;
}

/// Property conditions are plain functions, so there is one for each status.
fn reported(status: Status) -> Property<Protocol> {
    fn any(state: &State, status: Status) -> bool {
        state.reports.iter().any(|reports| reports.has(status))
    }
    match status {
        Status::Indexed => Property::sometimes("INDEXED", |_, s: &State| any(s, Status::Indexed)),
        Status::MetadataUpdated => Property::sometimes("METADATA_UPDATED", |_, s: &State| {
            any(s, Status::MetadataUpdated)
        }),
        Status::Unchanged => {
            Property::sometimes("UNCHANGED", |_, s: &State| any(s, Status::Unchanged))
        }
        Status::Superseded => {
            Property::sometimes("SUPERSEDED", |_, s: &State| any(s, Status::Superseded))
        }
        Status::Deleted => Property::sometimes("DELETED", |_, s: &State| any(s, Status::Deleted)),
    }
}

fn right_end(protocol: &Protocol, state: &State) -> bool {
    let ends = |(id, document): (usize, &Document)| {
        let newest = protocol.jobs.iter().rposition(|job| job.touches(id));
        match newest.map(|index| (index as u8 + 1, protocol.jobs[index])) {
            None => *document == Document::default(),
            Some((s, Job::Put { version, .. })) => serves(document, s, version),
            Some((s, Job::Delete { .. })) => gone(document, s),
            Some((_, Job::DeleteCorpus)) => emptied(protocol, document),
        }
    };
    !state.at_rest() || state.documents.iter().enumerate().all(ends)
}

fn serves(document: &Document, s: u8, version: Version) -> bool {
    let Some(row) = document.row else {
        return false;
    };
    let Version { text, metadata } = version;
    let wanted = Point {
        text,
        vector: text,
        metadata,
        sequence: row.live,
    };
    let points = document.points.iter().enumerate();
    // An unchanged document keeps the points, and so the `live`, of an older job.
    let unchanged = row.result == Status::Unchanged;
    (row.sequence, row.claimed, row.deleted, row.version) == (s, s, false, Some(version))
        && if unchanged {
            row.live < s
        } else {
            row.live == s
        }
        && points
            .map(|(ordinal, point)| (ordinal < text.chunks(), point))
            .all(|(has, point)| *point == has.then_some(wanted))
}

fn gone(document: &Document, s: u8) -> bool {
    let row = document.row;
    row.is_some_and(|row| row.deleted && [row.sequence, row.claimed, row.live] == [s; 3])
        && document.points == [None; 3]
}

/// After a `deleteCorpus`. A row that was not there when it walked the corpus can only be that of
/// an older put which found the fence: untouched since, or deleted by an older `deleteCorpus`.
fn emptied(protocol: &Protocol, document: &Document) -> bool {
    let Some(row) = document.row else {
        return document.points == [None; 3];
    };
    let writer = usize::from(row.sequence).checked_sub(1);
    gone(document, row.sequence)
        && writer.is_none_or(|index| protocol.jobs[index] == Job::DeleteCorpus)
}

/// While the registry says that a version is live, each of its chunks is in the store, or a newer
/// one is in its place. This holds from the first commit to the next delete, crashes and late
/// calls included, so "never neither" needs no exception.
fn readable(document: &Document) -> bool {
    let Some(Row {
        live,
        deleted: false,
        version: Some(version),
        ..
    }) = document.row
    else {
        return true;
    };
    let served = document.points.iter().take(version.text.chunks());
    served
        .into_iter()
        .all(|point| point.is_some_and(|point| point.sequence >= live))
}

fn own_vectors(document: &Document) -> bool {
    document
        .points
        .iter()
        .flatten()
        .all(|point| point.vector == point.text)
}
