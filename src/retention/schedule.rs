//! `retention.schedule`: when runs are planned. The server's own scheduler reads the same text; we read it to refuse what it
//! would refuse, and to plan runs ourselves where the server is too old.
//!
//! Must not know what a run does.

use std::time::Duration;

use chrono::{DateTime, Utc};
use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};

use crate::error::{Error, Result};
use crate::model::Timestamp;

const KEY: &str = "retention.schedule";
/// Names for cron expressions, as the server knows them.
const NAMES: [(&str, &str); 7] = [
    ("@yearly", "0 0 0 1 1 *"),
    ("@annually", "0 0 0 1 1 *"),
    ("@monthly", "0 0 0 1 * *"),
    ("@weekly", "0 0 0 * * 0"),
    ("@daily", "0 0 0 * * *"),
    ("@midnight", "0 0 0 * * *"),
    ("@hourly", "0 0 * * * *"),
];

/// A schedule, UTC.
#[derive(Debug, Clone)]
pub struct Schedule {
    plan: Plan,
}

#[derive(Debug, Clone)]
enum Plan {
    Every(Duration),
    Cron(Box<Cron>),
}

impl Schedule {
    /// Reads six cron fields (seconds first), a name such as `@daily`, or `@every 15m`.
    ///
    /// # Errors
    /// `InvalidField` on `retention.schedule`.
    pub fn parse(text: &str) -> Result<Self> {
        let text = text.trim();
        if let Some(every) = text.strip_prefix("@every ") {
            let every = duration(every.trim()).filter(|every| *every >= Duration::from_secs(1));
            let every = every.ok_or_else(|| {
                refused("needs a duration of at least 1s after @every, such as 15m")
            })?;
            return Ok(Self {
                plan: Plan::Every(every),
            });
        }
        let named = NAMES.iter().find(|(name, _)| *name == text);
        let cron = named.map_or(text, |(_, cron)| cron);
        let parser = CronParser::builder()
            .seconds(Seconds::Required)
            .year(Year::Disallowed)
            .build();
        let cron = parser.parse(cron).map_err(|e| {
            refused("must be six cron fields (second minute hour day month weekday), @daily, or @every 15m").caused_by(e)
        })?;
        Ok(Self {
            plan: Plan::Cron(Box::new(cron)),
        })
    }

    /// The first planned time after a moment; the same on every machine. `None` when there is none.
    pub fn next_after(&self, moment: Timestamp) -> Option<Timestamp> {
        match &self.plan {
            Plan::Every(every) => {
                let every = i64::try_from(every.as_micros()).ok()?;
                let rounds = moment.as_micros().div_euclid(every) + 1;
                rounds.checked_mul(every).map(Timestamp::from_micros)
            }
            Plan::Cron(cron) => {
                let from: DateTime<Utc> = DateTime::from_timestamp_micros(moment.as_micros())?;
                let next = cron.find_next_occurrence(&from, false).ok()?;
                Some(Timestamp::from_micros(next.timestamp_micros()))
            }
        }
    }
}

fn refused(why: &str) -> Error {
    Error::invalid_field(KEY, why)
}

/// Hours, minutes and seconds as the server reads them: `1h30m`, `90s`.
fn duration(text: &str) -> Option<Duration> {
    let mut total = Duration::ZERO;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let number: u64 = rest[..digits].parse().ok()?;
        let (unit, after) = rest[digits..].split_at(1);
        let seconds = match unit {
            "h" => 3_600,
            "m" => 60,
            "s" => 1,
            _ => return None,
        };
        total = total.checked_add(Duration::from_secs(number.checked_mul(seconds)?))?;
        rest = after;
    }
    Some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000_000;

    fn next(text: &str, after: i64) -> i64 {
        let schedule = Schedule::parse(text).expect(text);
        let next = schedule.next_after(Timestamp::from_micros(after));
        next.expect("there is one").as_micros()
    }

    #[test]
    fn planned_times_are_the_same_everywhere() {
        assert_eq!(next("@every 1h", 0), HOUR);
        assert_eq!(next("@every 1h", HOUR - 1), HOUR);
        assert_eq!(next("@every 1h", HOUR), 2 * HOUR);
        assert_eq!(next("0 0 3 * * *", 0), 3 * HOUR);
        assert_eq!(next("0 0 3 * * *", 3 * HOUR), 27 * HOUR);
        assert_eq!(next("@daily", HOUR), 24 * HOUR);
        assert_eq!(next("@every 1h30m", 0), HOUR * 3 / 2);
    }

    #[test]
    fn what_the_server_would_refuse_is_refused() {
        for bad in [
            "",
            "0 3 * * *",
            "@every",
            "@every 0s",
            "@every 500ms",
            "@every 5",
            "@every 99999999999999999999h",
            "@every ü",
            "@sometimes",
            "61 0 3 * * *",
            "0 0 3 * * * *",
        ] {
            let error = Schedule::parse(bad).expect_err(bad);
            assert_eq!(error.field(), Some(KEY), "{bad}");
        }
    }
}
