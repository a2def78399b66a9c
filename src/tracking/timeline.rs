//! A window in slices of equal length, each with its totals.
//!
//! Must not know how they are shown.

use crate::error::Result;
use crate::model::{CorpusRef, TimeWindow, Timestamp, TrackingTotals};
use crate::spi::RetrievalAnalysis;

/// Totals of `count` slices that cover the window; where it is open, from the first or up to the last retrieval. Without a
/// retrieval at an open end there is nothing to slice.
///
/// # Errors
/// `DependencyFailed`.
pub async fn timeline(
    analysis: &dyn RetrievalAnalysis,
    corpus: &CorpusRef,
    window: TimeWindow,
    count: u32,
) -> Result<Vec<(TimeWindow, TrackingTotals)>> {
    let mut slices = Vec::new();
    for slice in parts(closed(analysis, corpus, window).await?, count) {
        slices.push((slice, analysis.totals(corpus, slice).await?));
    }
    Ok(slices)
}

async fn closed(
    analysis: &dyn RetrievalAnalysis,
    corpus: &CorpusRef,
    window: TimeWindow,
) -> Result<TimeWindow> {
    if window.since.is_some() && window.until.is_some() {
        return Ok(window);
    }
    let totals = analysis.totals(corpus, window).await?;
    let behind = |at: Timestamp| Timestamp::from_micros(at.as_micros().saturating_add(1));
    Ok(TimeWindow {
        since: window.since.or(totals.first_at),
        until: window.until.or(totals.last_at.map(behind)),
    })
}

/// At most `count` windows beside each other, from the window's first moment to its last.
fn parts(window: TimeWindow, count: u32) -> Vec<TimeWindow> {
    let (Some(since), Some(until)) = (window.since, window.until) else {
        return Vec::new();
    };
    let (since, until) = (i128::from(since.as_micros()), i128::from(until.as_micros()));
    if since >= until {
        return Vec::new();
    }
    let count = i128::from(count.max(1)).min(until - since);
    let edge = |n: i128| {
        let micros = since + (until - since) * n / count;
        // Between two moments there are only moments.
        Timestamp::from_micros(i64::try_from(micros).unwrap_or(i64::MAX))
    };
    let part = |n| TimeWindow::between(edge(n), edge(n + 1));
    (0..count).map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn slices_cover_the_window_without_gaps(since in any::<i64>(), until in any::<i64>(), count in 0u32..300) {
            let at = Timestamp::from_micros;
            let parts = parts(TimeWindow::between(at(since), at(until)), count);
            if since >= until {
                prop_assert!(parts.is_empty());
                return Ok(());
            }
            prop_assert!(!parts.is_empty() && parts.len() <= count.max(1) as usize);
            prop_assert_eq!(parts[0].since, Some(at(since)));
            prop_assert_eq!(parts[parts.len() - 1].until, Some(at(until)));
            prop_assert!(parts.windows(2).all(|two| two[0].until == two[1].since));
            prop_assert!(parts.iter().all(|part| part.since < part.until));
        }
    }

    #[test]
    fn an_open_window_without_retrievals_has_no_slice() {
        assert!(parts(TimeWindow::ALL, 5).is_empty());
    }
}
