//! The store's side of the protocol in `ARCHITECTURE.md`: the conditional upsert of step 3 and the clean-up of step 5,
//! as calls that may be carried out at once, late, or never.

use crate::protocol::next_tombstone;
use crate::rules::{Protocol, Simplification};
use crate::state::{Document, Job, Point, State, Step, StoreCall, Version};

impl Protocol {
    /// The store call of the step at which a delivery stands.
    pub fn store_call(&self, state: &State, delivery: usize) -> Option<StoreCall> {
        let run = &state.deliveries[delivery];
        match (run.step, self.job(delivery)) {
            (Step::Write { ordinal }, Job::Put { document, version }) => {
                let Version { text, metadata } = version;
                let vector = run.vectors[ordinal].unwrap_or(text);
                let sequence = self.sequence(delivery);
                let point = Point {
                    text,
                    vector,
                    metadata,
                    sequence,
                };
                Some(StoreCall::Upsert {
                    document,
                    ordinal,
                    point,
                })
            }
            (Step::CleanUp { document, live }, _) => Some(StoreCall::CleanUp { document, live }),
            _ => None,
        }
    }

    pub fn after_store_call(&self, state: &State, delivery: usize) -> Step {
        match (state.deliveries[delivery].step, self.job(delivery)) {
            (Step::Write { ordinal }, Job::Put { version, .. })
                if ordinal + 1 < version.text.chunks() =>
            {
                Step::Write {
                    ordinal: ordinal + 1,
                }
            }
            (Step::Write { .. }, _) => Step::Commit,
            (Step::CleanUp { document, .. }, Job::DeleteCorpus) => next_tombstone(document),
            _ => Step::Publish,
        }
    }

    /// The store carries a call out, in time or late.
    pub fn apply(&self, state: &mut State, call: StoreCall) {
        match call {
            StoreCall::Upsert {
                document,
                ordinal,
                point,
            } => {
                let stored = &mut state.documents[document].points[ordinal];
                let newer = stored.is_some_and(|stored| stored.sequence > point.sequence);
                if !newer || self.omits(Simplification::UnconditionalUpsert) {
                    *stored = Some(point);
                }
            }
            StoreCall::CleanUp { document, live } => clean_up(&mut state.documents[document], live),
        }
    }
}

fn clean_up(document: &mut Document, live: u8) {
    for point in &mut document.points {
        *point = point.filter(|point| point.sequence >= live);
    }
}
