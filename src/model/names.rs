//! Names of closed sets, as the wire, stored rows and reports write them: one vocabulary everywhere.
//!
//! Must not know what a name is written into.

use super::{ChunkFate, FeedbackOutcome, Grade, Origin, Outcome, ScoreKind};

/// Every value of a set with its name; a variant that is missing here does not compile.
macro_rules! named {
    ($($set:ident { $($variant:ident => $name:literal),+ $(,)? })+) => {
        $(impl $set {
            /// Every value.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The name on the wire and in stored rows.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }

            /// The value of that name.
            pub fn parse(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|value| value.name() == name)
            }
        })+
    };
}

named! {
    Outcome {
        Ok => "OK",
        NoCorpus => "NO_CORPUS",
        NoMatch => "NO_MATCH",
        NoRelevantContext => "NO_RELEVANT_CONTEXT",
    }
    ScoreKind {
        Cosine => "COSINE",
        SparseDot => "SPARSE_DOT",
        Bm25 => "BM25",
        Rrf => "RRF",
        Dbsf => "DBSF",
        CrossEncoder => "CROSS_ENCODER",
    }
    Grade {
        Correct => "CORRECT",
        Ambiguous => "AMBIGUOUS",
        Incorrect => "INCORRECT",
        Ungraded => "UNGRADED",
    }
    Origin {
        Original => "ORIGINAL",
        Template => "TEMPLATE",
        Hyde => "HYDE",
        StepBack => "STEP_BACK",
    }
    FeedbackOutcome {
        NotRelevant => "NOT_RELEVANT",
        PartiallyRelevant => "PARTIALLY_RELEVANT",
        Relevant => "RELEVANT",
        HighlyRelevant => "HIGHLY_RELEVANT",
    }
    ChunkFate {
        Returned => "RETURNED",
        Incorrect => "DROPPED_INCORRECT",
        BelowMinRelevance => "DROPPED_MIN_RELEVANCE",
        DocumentLimit => "DROPPED_DOCUMENT_LIMIT",
        Limit => "DROPPED_LIMIT",
        MessageSize => "DROPPED_MESSAGE_SIZE",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn names_lead_back() {
        for kind in ScoreKind::ALL {
            assert_eq!(ScoreKind::parse(kind.name()), Some(*kind));
        }
        for kind in ErrorKind::ALL {
            assert_eq!(ErrorKind::parse(kind.name()), Some(kind));
        }
        assert_eq!(ChunkFate::parse("dropped"), None);
        assert_eq!(FeedbackOutcome::ALL.len(), 4);
    }
}
