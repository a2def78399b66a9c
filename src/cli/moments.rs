//! Moments on the command line: `7d` for seven days ago, or RFC 3339; and how they are printed.

use jiff::Timestamp as Moment;

use crate::model::Timestamp;
use crate::wire::WireTimestamp;

/// Reads a moment for clap.
pub(super) fn moment(text: &str) -> Result<Timestamp, String> {
    let ago = || {
        let micros = micros(text)?;
        let now = Timestamp::now().as_micros();
        Some(Timestamp::from_micros(now.checked_sub(micros)?))
    };
    let named = || WireTimestamp::parse(text)?.to_model();
    ago()
        .or_else(named)
        .ok_or_else(|| "must be RFC 3339, or so long ago: 30s, 15m, 12h, 7d, 4w".to_owned())
}

/// The microseconds of a number and a unit.
fn micros(text: &str) -> Option<i64> {
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let seconds: i64 = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        "w" => 604_800,
        _ => return None,
    };
    let digits = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
    let number: i64 = digits.then(|| number.parse().ok())??;
    number.checked_mul(seconds)?.checked_mul(1_000_000)
}

/// To the second, UTC; empty without a moment.
pub(super) fn shown(time: Option<WireTimestamp>) -> String {
    formatted(time, "%Y-%m-%d %H:%M:%S")
}

/// To the minute and without the year, for axes.
pub(super) fn short(time: Option<WireTimestamp>) -> String {
    formatted(time, "%m-%d %H:%M")
}

/// As the wire writes it.
pub(super) fn rfc3339(time: Timestamp) -> String {
    let moment = Moment::from_microsecond(time.as_micros()).ok();
    moment.map_or_else(String::new, |moment| moment.to_string())
}

fn formatted(time: Option<WireTimestamp>, format: &str) -> String {
    let moment = time
        .and_then(WireTimestamp::to_model)
        .and_then(|time| Moment::from_microsecond(time.as_micros()).ok());
    moment.map_or_else(String::new, |moment| moment.strftime(format).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_named_or_so_long_ago() {
        let named = moment("2024-05-01T12:00:00+02:00").expect("a moment");
        assert_eq!(rfc3339(named), "2024-05-01T10:00:00Z");
        assert_eq!(shown(Some(named.into())), "2024-05-01 10:00:00");
        let then = moment("2h").expect("a moment").as_micros();
        let ago = Timestamp::now().as_micros() - then;
        assert!((0..9_000_000).contains(&(ago - 7_200_000_000)), "{ago}");
        for bad in [
            "",
            "d",
            "-1d",
            "+1d",
            "7",
            "7 d",
            "7y",
            "ü",
            "99999999999999999d",
            "yesterday",
        ] {
            assert!(moment(bad).is_err(), "{bad}");
        }
        assert_eq!(shown(None), "");
    }
}
