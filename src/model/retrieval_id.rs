//! The name of one retrieval: a UUID, by default of version 7, so that names sort by time and say when they were made.
//!
//! Must not know a clock or a source of chance: whoever makes an id brings its bits.

use std::fmt;

use super::Timestamp;

/// One retrieval of one tenant. Two tenants may bear the same id without meeting: it is looked up with its tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RetrievalId(u128);

impl RetrievalId {
    /// From a UUID's bits.
    pub const fn from_u128(bits: u128) -> Self {
        Self(bits)
    }

    /// The UUID's bits.
    pub const fn as_u128(self) -> u128 {
        self.0
    }

    /// Reads `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx`, in either case and of any version.
    pub fn parse(text: &str) -> Option<Self> {
        let hyphens = [8, 13, 18, 23];
        let well_formed = text.len() == 36
            && text.bytes().enumerate().all(|(at, byte)| {
                if hyphens.contains(&at) {
                    byte == b'-'
                } else {
                    byte.is_ascii_hexdigit()
                }
            });
        if !well_formed {
            return None;
        }
        let digits = text.replace('-', "");
        u128::from_str_radix(&digits, 16).ok().map(Self)
    }

    /// When it was made, to the millisecond, by the clock of who made it; `None` when it isn't of version 7.
    pub fn created_at(self) -> Option<Timestamp> {
        let version = (self.0 >> 76) & 0xf;
        let millis = i64::try_from(self.0 >> 80).ok()?;
        (version == 7).then(|| Timestamp::from_micros(millis.saturating_mul(1_000)))
    }
}

impl fmt::Display for RetrievalId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hex = format!("{:032x}", self.0);
        write!(
            f,
            "{}-{}-{}-{}-{}",
            &hex[..8],
            &hex[8..12],
            &hex[12..16],
            &hex[16..20],
            &hex[20..]
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_leads_back_and_bad_text_to_nothing() {
        let id = RetrievalId::from_u128(0x0190_0000_0000_7abc_8123_0123_4567_89ab);
        assert_eq!(id.to_string(), "01900000-0000-7abc-8123-0123456789ab");
        assert_eq!(RetrievalId::parse(&id.to_string()), Some(id));
        assert_eq!(RetrievalId::parse(&id.to_string().to_uppercase()), Some(id));
        for bad in [
            "",
            "0190000000007abc81230123456789ab",
            "01900000-0000-7abc-8123-0123456789a",
            "01900000-0000-7abc-8123-0123456789ag",
            "+1900000-0000-7abc-8123-0123456789ab",
            "01900000-0000-7abc-8123-01234567\u{e9}ab",
        ] {
            assert_eq!(RetrievalId::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn only_version_7_tells_its_time() {
        let of = |text| RetrievalId::parse(text).and_then(RetrievalId::created_at);
        let made = of("017f22e2-79b0-7cc3-98c4-dc0c0c07398f");
        assert_eq!(made, Some(Timestamp::from_micros(1_645_557_742_000_000)));
        assert_eq!(of("017f22e2-79b0-4cc3-98c4-dc0c0c07398f"), None);
    }
}
