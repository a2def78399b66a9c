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

/// Serialises a URL without its password.
pub(super) fn url_without_password<S: Serializer>(
    url: &str,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&without_password(url))
}

/// Every server of a list may bring its own user.
pub(super) fn without_password(urls: &str) -> String {
    let one = |url: &str| {
        let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
        match rest.rsplit_once('@') {
            None => url.to_owned(),
            Some((_, host)) if scheme.is_empty() => format!("<redacted>@{host}"),
            Some((_, host)) => format!("{scheme}://<redacted>@{host}"),
        }
    };
    urls.split(',').map(one).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_shown_without_who_connects() {
        let shown = without_password;
        assert_eq!(shown("nats://h:4222"), "nats://h:4222");
        assert_eq!(shown("nats://u:p@h:4222"), "nats://<redacted>@h:4222");
        assert_eq!(
            shown("u:p@q@h,nats://t@i"),
            "<redacted>@h,nats://<redacted>@i"
        );
    }
}
