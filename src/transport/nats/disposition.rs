//! What becomes of a job that failed: the one place that decides it.

use std::time::Duration;

use crate::error::ErrorKind;

/// The delivery at which an internal error, or a crash, becomes a dead letter.
pub const MAX_ATTEMPTS: u64 = 6;

/// Shortest delay before a redelivery.
pub const SHORTEST_DELAY: Duration = Duration::from_secs(2);
const DELAYS: [Duration; 4] = [
    SHORTEST_DELAY,
    Duration::from_secs(10),
    Duration::from_secs(60),
    Duration::from_secs(300),
];

/// Longest delay when the job isn't to blame.
const LONGEST_FOR_OTHERS: Duration = Duration::from_secs(30);

/// What to do with a failed delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disposition {
    /// Deliver it again after this time.
    Retry(Duration),
    /// Move it to the dead letters; its result is `FAILED`.
    DeadLetter,
    /// Its result is `FAILED`, and that is all.
    Refuse,
}

/// From error kind and count of attempts (from 1) to a disposition. Exhaustive on purpose.
pub const fn disposition(kind: ErrorKind, delivery: u64) -> Disposition {
    match kind {
        ErrorKind::Malformed
        | ErrorKind::TenantInvalid
        | ErrorKind::NotFound
        | ErrorKind::SchemaConflict
        | ErrorKind::TooLarge
        | ErrorKind::UnsupportedEncoding
        | ErrorKind::InvalidField => Disposition::DeadLetter,
        // Somebody else's trouble is never the job's: it waits as long as it takes.
        // Only a put beyond the tenant's documents ends here. Whether there will ever be room is the tenant's business, so
        // waiting could take for ever, and the caller would not know why: a result that says so is clearer, and the job can be
        // sent again once there is room. It is no dead letter either: nothing is broken, the caller has the document, and a
        // tenant that goes on putting would push its real dead letters out of the stream.
        ErrorKind::TenantLimit => Disposition::Refuse,
        ErrorKind::DependencyFailed
        | ErrorKind::Overloaded
        | ErrorKind::Draining
        | ErrorKind::RequiredStageDegraded
        // Pulling pauses while a dependency is down, so what comes back meets one that is there again: it need not wait
        // long because the job was also delivered to workers that died.
        | ErrorKind::Timeout => Disposition::Retry(shorter(retry_delay(delivery), LONGEST_FOR_OTHERS)),
        ErrorKind::Internal => {
            if delivery >= MAX_ATTEMPTS {
                Disposition::DeadLetter
            } else {
                Disposition::Retry(retry_delay(delivery))
            }
        }
    }
}

/// How much longer than the store's own limit a redelivery waits.
pub const MARGIN: Duration = Duration::from_secs(1);

/// A wait that ends after the store can no longer apply a write whose outcome is unknown: a redelivery that starts earlier
/// could be overtaken by it.
pub(super) fn not_before(wait: Duration, write_limit: Duration) -> Duration {
    wait.max(write_limit + MARGIN)
}

/// How long a delivery waits before the next one; grows and ends.
pub(super) const fn retry_delay(delivery: u64) -> Duration {
    let index = if delivery == 0 { 0 } else { delivery - 1 };
    if index < DELAYS.len() as u64 {
        DELAYS[index as usize]
    } else {
        DELAYS[DELAYS.len() - 1]
    }
}

const fn shorter(a: Duration, b: Duration) -> Duration {
    if a.as_millis() < b.as_millis() { a } else { b }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permanent_errors_die_at_once_and_dependencies_never() {
        assert_eq!(
            disposition(ErrorKind::Malformed, 1),
            Disposition::DeadLetter
        );
        assert_eq!(
            disposition(ErrorKind::SchemaConflict, 1),
            Disposition::DeadLetter
        );
        for delivery in [1, 6, 600] {
            let kept = disposition(ErrorKind::DependencyFailed, delivery);
            assert!(matches!(kept, Disposition::Retry(wait) if wait <= LONGEST_FOR_OTHERS));
        }
    }

    #[test]
    fn a_tenants_limit_is_told_at_once() {
        for delivery in [1, 6] {
            let told = disposition(ErrorKind::TenantLimit, delivery);
            assert_eq!(told, Disposition::Refuse);
        }
    }

    #[test]
    fn an_internal_error_dies_at_the_sixth_delivery() {
        assert!(matches!(
            disposition(ErrorKind::Internal, 5),
            Disposition::Retry(_)
        ));
        assert_eq!(disposition(ErrorKind::Internal, 6), Disposition::DeadLetter);
    }

    #[test]
    fn a_redelivery_waits_for_the_stores_late_writes() {
        let nine = Duration::from_secs(9);
        assert_eq!(not_before(SHORTEST_DELAY, Duration::ZERO), SHORTEST_DELAY);
        assert_eq!(not_before(SHORTEST_DELAY, nine), nine + MARGIN);
        assert_eq!(not_before(DELAYS[2], nine), DELAYS[2]);
    }

    #[test]
    fn delays_grow_and_end() {
        let waits: Vec<u64> = (1..=6)
            .map(|d| match disposition(ErrorKind::Overloaded, d) {
                Disposition::Retry(wait) => wait.as_secs(),
                Disposition::DeadLetter | Disposition::Refuse => 0,
            })
            .collect();
        assert_eq!(waits, [2, 10, 30, 30, 30, 30]);
        let of_a_bug: Vec<u64> = (1..=6).map(|d| retry_delay(d).as_secs()).collect();
        assert_eq!(of_a_bug, [2, 10, 60, 300, 300, 300]);
    }
}
