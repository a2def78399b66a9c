//! Text that must not show.

use std::fmt;

use serde::{Deserialize, Serialize, Serializer};

/// A secret: `Debug` and every printed configuration show only whether it is set.
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// The text itself, for the one place that needs it.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Whether it is set.
    pub fn is_set(&self) -> bool {
        !self.0.is_empty()
    }

    fn shown(&self) -> &'static str {
        if self.is_set() { "<redacted>" } else { "" }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret({})", self.shown())
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.shown())
    }
}
