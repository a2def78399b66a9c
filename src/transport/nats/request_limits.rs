//! What one tenant may ask of this worker: requests in work at once, and requests a second. Must not know NATS.
//!
//! Memory is bounded by the tenants that are asking now: one without a request in work and with a full bucket is forgotten.

use std::collections::{BTreeMap, HashMap};
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use governor::clock::{Clock, DefaultClock};
use governor::{DefaultDirectRateLimiter, DefaultKeyedRateLimiter, Quota, RateLimiter};

use crate::error::{Error, ErrorKind, Result};
use crate::model::{LimitBook, TenantId, TenantLimits};
use crate::telemetry::Metrics;

/// Nobody knows when one of the tenant's own requests ends: soon, mostly.
const BUSY_RETRY: Duration = Duration::from_millis(200);
/// After so many requests full buckets are looked for.
const SWEEP: u64 = 1024;

/// The limits of requests on this worker, over all endpoints.
#[derive(Debug)]
pub struct RequestLimits {
    book: Arc<LimitBook>,
    in_flight: InFlight,
    /// Tenants with a rate of their own: as many as are configured.
    own: BTreeMap<String, DefaultDirectRateLimiter>,
    /// Everybody else.
    shared: Option<DefaultKeyedRateLimiter<TenantId>>,
    asked: AtomicU64,
    clock: DefaultClock,
    metrics: Metrics,
}

/// Requests in work, by tenant.
type InFlight = Arc<Mutex<HashMap<TenantId, u32>>>;

/// A tenant's place among its requests in work; dropping it gives the place back, however the request ends. The default is
/// that of somebody without a limit.
#[derive(Debug, Default)]
#[must_use]
pub struct Place {
    held: Option<(InFlight, TenantId)>,
}

impl RequestLimits {
    /// Limits by this book; refusals are counted.
    pub fn new(book: Arc<LimitBook>, metrics: Metrics) -> Self {
        let own = book.tenants.iter().filter_map(|(tenant, limits)| {
            let quota = quota(limits.requests_per_second?)?;
            Some((tenant.clone(), RateLimiter::direct(quota)))
        });
        let shared = book.default.requests_per_second.and_then(quota);
        Self {
            own: own.collect(),
            shared: shared.map(RateLimiter::keyed),
            in_flight: Arc::default(),
            asked: AtomicU64::new(0),
            clock: DefaultClock::default(),
            metrics,
            book,
        }
    }

    /// A place for one more request of this tenant.
    ///
    /// # Errors
    /// `TenantLimit` with the time after which another try makes sense.
    pub fn admit(&self, tenant: &TenantId) -> Result<Place> {
        // In this order: a request that finds no place must not cost a token.
        let place = self.place(tenant, self.book.of(tenant))?;
        self.token(tenant)?;
        Ok(place)
    }

    fn place(&self, tenant: &TenantId, limits: TenantLimits) -> Result<Place> {
        let Some(most) = limits.in_flight else {
            return Ok(Place::default());
        };
        let mut in_flight = self
            .in_flight
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let now = in_flight.get(tenant).copied().unwrap_or(0);
        if now >= most {
            drop(in_flight);
            let message = format!("the tenant has {most} requests in work on this worker already");
            return Err(self.refused("in_flight", message, BUSY_RETRY));
        }
        in_flight.insert(tenant.clone(), now + 1);
        Ok(Place {
            held: Some((Arc::clone(&self.in_flight), tenant.clone())),
        })
    }

    fn token(&self, tenant: &TenantId) -> Result<()> {
        let checked = match (self.own.get(tenant.as_str()), &self.shared) {
            (Some(own), _) => own.check(),
            (None, Some(shared)) => {
                if self.asked.fetch_add(1, Ordering::Relaxed) % SWEEP == SWEEP - 1 {
                    shared.retain_recent();
                }
                shared.check_key(tenant)
            }
            (None, None) => return Ok(()),
        };
        checked.map_err(|until| {
            let message = "the tenant asks more often than its requests_per_second allows";
            let wait = until.wait_time_from(self.clock.now());
            // Whole milliseconds on the wire: rounded down, the very retry would come too early.
            let wait =
                Duration::from_millis(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX - 1) + 1);
            self.refused("requests_per_second", message, wait)
        })
    }

    fn refused(&self, limit: &'static str, message: impl Into<String>, wait: Duration) -> Error {
        self.metrics.limited(limit);
        Error::new(ErrorKind::TenantLimit, message).retry_after(wait)
    }
}

/// A bucket that holds a second's worth, and one request at least.
fn quota(per_second: f64) -> Option<Quota> {
    let period = Duration::try_from_secs_f64(1.0 / per_second).ok()?;
    let burst = NonZeroU32::new(per_second.ceil() as u32).unwrap_or(NonZeroU32::MIN);
    Some(Quota::with_period(period)?.allow_burst(burst))
}

impl Drop for Place {
    fn drop(&mut self) {
        let Some((in_flight, tenant)) = &self.held else {
            return;
        };
        let mut in_flight = in_flight.lock().unwrap_or_else(PoisonError::into_inner);
        match in_flight.get_mut(tenant) {
            Some(count) if *count > 1 => *count -= 1,
            _ => {
                in_flight.remove(tenant);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant(token: &str) -> TenantId {
        TenantId::mint(token).expect("valid")
    }

    fn limits(default: TenantLimits, acme: TenantLimits) -> RequestLimits {
        let book = LimitBook {
            default,
            tenants: BTreeMap::from([("acme".to_owned(), acme)]),
        };
        let provider = opentelemetry::metrics::noop::NoopMeterProvider::new();
        RequestLimits::new(Arc::new(book), Metrics::new(&provider))
    }

    fn rate(requests_per_second: f64) -> TenantLimits {
        TenantLimits {
            requests_per_second: Some(requests_per_second),
            ..TenantLimits::default()
        }
    }

    fn places(in_flight: u32) -> TenantLimits {
        TenantLimits {
            in_flight: Some(in_flight),
            ..TenantLimits::default()
        }
    }

    #[test]
    fn places_are_a_tenants_own_and_given_back_whatever_happens() {
        let limits = limits(places(1), places(2));
        let (acme, other) = (tenant("acme"), tenant("other"));
        let first = limits.admit(&acme).expect("a place");
        let _second = limits.admit(&acme).expect("another");
        let refused = limits.admit(&acme).expect_err("full");
        assert_eq!(refused.kind(), ErrorKind::TenantLimit);
        assert_eq!(refused.retry_wait(), Some(BUSY_RETRY));
        let own = limits.admit(&other).expect("its own place");
        assert!(limits.admit(&other).is_err(), "the default is 1");
        drop(first);
        let again = limits.admit(&acme).expect("given back");
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
            let _held = again;
            panic!("as a request may");
        }));
        assert!(panicked.is_err());
        let _again = limits.admit(&acme).expect("given back by the panic");
        drop(own);
        assert_eq!(limits.in_flight.lock().expect("no panic").len(), 1);
    }

    #[test]
    fn a_bucket_holds_a_seconds_worth_and_says_when_to_come_again() {
        let limits = limits(rate(0.001), rate(3.0));
        for _ in 0..3 {
            let _ = limits.admit(&tenant("acme")).expect("in the bucket");
        }
        let refused = limits.admit(&tenant("acme")).expect_err("empty");
        let wait = refused.retry_wait().expect("said");
        assert!(wait <= Duration::from_millis(335), "{wait:?}");
        for other in ["b", "c"] {
            let _ = limits.admit(&tenant(other)).expect("one each");
            let refused = limits.admit(&tenant(other)).expect_err("empty");
            let wait = refused.retry_wait().expect("said");
            assert!(wait > Duration::from_secs(900), "{wait:?}");
        }
    }

    #[test]
    fn a_request_without_a_place_costs_no_token() {
        let both = TenantLimits {
            in_flight: Some(1),
            ..rate(2.0)
        };
        let limits = limits(TenantLimits::default(), both);
        let held = limits.admit(&tenant("acme")).expect("the first token");
        for _ in 0..5 {
            assert!(limits.admit(&tenant("acme")).is_err());
        }
        drop(held);
        let _ = limits.admit(&tenant("acme")).expect("the second token");
    }

    #[test]
    fn tenants_that_went_away_are_forgotten() {
        let limits = limits(rate(1_000_000.0), TenantLimits::default());
        let shared = limits.shared.as_ref().expect("a default rate");
        for number in 0..10 * SWEEP {
            let _ = limits
                .admit(&tenant(&format!("t{number}")))
                .expect("admitted");
            assert!(shared.len() <= 2 * SWEEP as usize);
        }
        assert!(limits.in_flight.lock().expect("no panic").is_empty());
    }

    #[test]
    fn without_limits_nothing_is_counted() {
        let limits = limits(TenantLimits::default(), TenantLimits::default());
        let held: Vec<Place> = (0..1000)
            .map(|_| limits.admit(&tenant("acme")).expect("no limit"))
            .collect();
        assert!(limits.in_flight.lock().expect("no panic").is_empty());
        drop(held);
    }
}
