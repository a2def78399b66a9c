//! `google.protobuf.Timestamp` with RFC 3339 text in JSON, written with `Z`.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de, ser};

use crate::model::Timestamp;

/// The standard's timestamp message, under our own type so that its JSON ends in `Z`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
pub struct WireTimestamp {
    /// Seconds since the epoch.
    #[prost(int64, tag = "1")]
    pub seconds: i64,
    /// Nanoseconds of the second, 0 to 999,999,999.
    #[prost(int32, tag = "2")]
    pub nanos: i32,
}

impl WireTimestamp {
    /// From RFC 3339 text with any offset; `None` for anything else.
    pub fn parse(text: &str) -> Option<Self> {
        parse_rfc3339(text).map(Self::at)
    }

    fn at(moment: jiff::Timestamp) -> Self {
        let (seconds, nanos) = (moment.as_second(), moment.subsec_nanosecond());
        Self { seconds, nanos }.normalised()
    }

    /// As microseconds; `None` when it is out of the standard's range (years 1 to 9999).
    pub fn to_model(self) -> Option<Timestamp> {
        let moment = self.moment()?;
        Some(Timestamp::from_micros(moment.as_microsecond()))
    }

    fn moment(self) -> Option<jiff::Timestamp> {
        if !(0..1_000_000_000).contains(&self.nanos) {
            return None;
        }
        let moment = jiff::Timestamp::new(self.seconds, self.nanos).ok()?;
        let earliest = jiff::Timestamp::from_second(-62_135_596_800).ok()?;
        (moment >= earliest).then_some(moment)
    }
}

impl From<Timestamp> for WireTimestamp {
    fn from(time: Timestamp) -> Self {
        let micros = time.as_micros();
        Self {
            seconds: micros.div_euclid(1_000_000),
            // rem_euclid of a million fits with room for the factor.
            nanos: i32::try_from(micros.rem_euclid(1_000_000) * 1_000).unwrap_or_default(),
        }
    }
}

impl Serialize for WireTimestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let moment = self
            .moment()
            .ok_or_else(|| ser::Error::custom("timestamp out of range"))?;
        serializer.collect_str(&moment)
    }
}

impl<'de> Deserialize<'de> for WireTimestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text)
            .ok_or_else(|| de::Error::custom("wrong type, expected an RFC 3339 timestamp"))
    }
}

impl WireTimestamp {
    /// The standard wants nanos ≥ 0, also before the epoch.
    fn normalised(mut self) -> Self {
        if self.nanos < 0 {
            self.seconds -= 1;
            self.nanos += 1_000_000_000;
        }
        self
    }
}

/// Parses an RFC 3339 date-time with an offset; `None` for anything else.
pub(super) fn parse_rfc3339(text: &str) -> Option<jiff::Timestamp> {
    // The parser also takes bracketed zones and other ISO 8601 forms, which RFC 3339 doesn't have.
    let plain = text.bytes().all(|b| {
        b.is_ascii_digit()
            || matches!(
                b,
                b'-' | b'+' | b':' | b'.' | b'T' | b't' | b'Z' | b'z' | b' '
            )
    });
    let long_enough = text.len() >= "2020-01-01T00:00:00Z".len();
    if plain && long_enough {
        text.parse().ok()
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_written_with_z_and_read_with_any_offset() {
        let read: WireTimestamp =
            serde_json::from_str("\"2024-05-01T12:00:00.25+02:00\"").expect("valid");
        assert_eq!(
            serde_json::to_string(&read).expect("in range"),
            "\"2024-05-01T10:00:00.25Z\""
        );
        for bad in [
            "\"2024-05-01\"",
            "\"yesterday\"",
            "5",
            "\"2024-05-01T12:00:00\"",
        ] {
            assert!(serde_json::from_str::<WireTimestamp>(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn micros_round_trip_before_and_after_the_epoch() {
        for micros in [0, 1, -1, 1_234_567_890_123_456, -62_135_596_800_000_000] {
            let time = Timestamp::from_micros(micros);
            assert_eq!(WireTimestamp::from(time).to_model(), Some(time), "{micros}");
        }
    }
}
