//! Plots of what a corpus was used for. Without data there is no plot.

use plotters::coord::ranged1d::SegmentedCoord;
use plotters::coord::types::{RangedCoordf64, RangedCoordusize};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::super::moments::short;
use super::super::printable::printable;
use super::plots::{BLUE, Drawn, GREEN, INK, LINE, NARROW, ORANGE, RED, WIDE, svg};
use crate::error::Result;
use crate::wire::v1::{self, outcome};

const HEIGHT: u32 = 220;
const ROW: u32 = 26;
/// Rows of a list that are drawn.
const MOST: usize = 10;
/// Characters of a name beside a bar.
const NAME: usize = 26;
const SIZE: u32 = 13;

/// A bar with its name, what stands behind it, and values drawn over each other, the largest first.
struct Row {
    name: String,
    values: Vec<(f64, RGBColor)>,
    told: String,
}

/// Answered, found nothing and failed, on top of each other, a bar a slice.
pub(super) fn over_time(slices: &[v1::TimeSlice]) -> Result<Option<String>> {
    let most = slices.iter().map(|slice| slice.retrievals).max();
    let Some(most) = most.filter(|most| *most > 0) else {
        return Ok(None);
    };
    let top = f64::from(most) * 1.05;
    svg((WIDE, HEIGHT), |area| {
        let mut chart = ChartBuilder::on(area)
            .margin(8)
            .set_label_area_size(LabelAreaPosition::Left, 56)
            .set_label_area_size(LabelAreaPosition::Bottom, 28)
            .build_cartesian_2d(0.0..slices.len() as f64, 0.0..top)?;
        let when = |x: &f64| short(slices.get(*x as usize).and_then(|slice| slice.since));
        chart
            .configure_mesh()
            .disable_x_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(LINE)
            .axis_style(LINE)
            .x_labels(8)
            .y_labels(5)
            .x_label_formatter(&when)
            .y_label_formatter(&|y| format!("{y:.0}"))
            .label_style(("sans-serif", SIZE).into_font().color(&INK))
            .draw()?;
        let bars = slices
            .iter()
            .enumerate()
            .flat_map(|(at, slice)| stack(at, slice));
        chart.draw_series(bars)?;
        Ok(())
    })
    .map(Some)
}

fn stack(at: usize, slice: &v1::TimeSlice) -> Vec<Rectangle<(f64, f64)>> {
    let [all, none, failed] = [slice.retrievals, slice.zero_hits, slice.failed].map(f64::from);
    let answered = (all - none - failed).max(0.0);
    let (left, right) = (at as f64 + 0.08, at as f64 + 0.92);
    let mut low = 0.0;
    let parts = [(answered, BLUE), (none, ORANGE), (failed, RED)];
    let drawn = parts.into_iter().filter(|(count, _)| *count > 0.0);
    drawn
        .map(|(count, colour)| {
            let bar = [(left, low), (right, low + count)];
            low += count;
            Rectangle::new(bar, colour.filled())
        })
        .collect()
}

/// A bar an outcome, failures too.
pub(super) fn outcomes(totals: &v1::CorpusTotals) -> Result<Option<String>> {
    let colour = |kind: outcome::Kind| match kind {
        outcome::Kind::Ok => GREEN,
        _ => ORANGE,
    };
    let answered = totals.outcomes.iter();
    let answered = answered.map(|o| count(o.outcome().as_str_name(), o.count, colour(o.outcome())));
    let failed = totals.failures.iter();
    let failed = failed.map(|f| count(&f.kind, f.count, RED));
    rows(&answered.chain(failed).collect::<Vec<_>>())
}

/// Documents by replies.
pub(super) fn documents(documents: &[v1::DocumentUse]) -> Result<Option<String>> {
    let shown = documents.iter().take(MOST);
    let bars = shown.map(|d| count(&d.document_id, d.retrievals, BLUE));
    rows(&bars.collect::<Vec<_>>())
}

/// Questions by how often they found nothing.
pub(super) fn zero_hits(queries: &[v1::QueryUse]) -> Result<Option<String>> {
    let text = |query: &v1::QueryUse| query.query.clone().unwrap_or_default().text;
    let shown = queries.iter().take(MOST);
    let bars = shown.map(|query| count(&text(query), query.zero_hits, ORANGE));
    rows(&bars.collect::<Vec<_>>())
}

/// The whole request and its stages: three percentiles over each other.
pub(super) fn latencies(latencies: &[v1::Latency]) -> Result<Option<String>> {
    let row = |latency: &v1::Latency| Row {
        name: match latency.stage.as_str() {
            "" => "whole request".to_owned(),
            stage => stage.to_owned(),
        },
        values: vec![
            (latency.p99_ms, RED),
            (latency.p90_ms, ORANGE),
            (latency.p50_ms, BLUE),
        ],
        told: format!(
            "{:.1} / {:.1} / {:.1}",
            latency.p50_ms, latency.p90_ms, latency.p99_ms
        ),
    };
    rows(&latencies.iter().map(row).collect::<Vec<_>>())
}

fn count(name: &str, count: u32, colour: RGBColor) -> Row {
    Row {
        name: printable(name, NAME),
        values: vec![(f64::from(count), colour)],
        told: count.to_string(),
    }
}

/// One bar below the other, the first on top.
fn rows(rows: &[Row]) -> Result<Option<String>> {
    let largest = |row: &Row| {
        row.values
            .iter()
            .fold(0.0_f64, |top, (value, _)| top.max(*value))
    };
    let top = rows.iter().map(largest).fold(0.0, f64::max);
    if top <= 0.0 {
        return Ok(None);
    }
    // An axis of one segment has no length, and nothing on it would show.
    let count = rows.len().max(2);
    svg((NARROW, ROW * count as u32 + 16), |area| {
        let mut chart = ChartBuilder::on(area)
            .margin(8)
            .set_label_area_size(LabelAreaPosition::Left, 180)
            // Room for what stands behind the longest bar.
            .build_cartesian_2d(0.0..top * 1.6, (0..count - 1).into_segmented())?;
        for (index, row) in rows.iter().enumerate() {
            bar(&mut chart, count - 1 - index, row, largest(row))?;
        }
        Ok(())
    })
    .map(Some)
}

type Chart<'a, 'b> =
    ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, SegmentedCoord<RangedCoordusize>>>;

fn bar(chart: &mut Chart, place: usize, row: &Row, end: f64) -> Drawn {
    for (value, colour) in &row.values {
        let corners = [
            (0.0, SegmentValue::Exact(place)),
            (*value, SegmentValue::Exact(place + 1)),
        ];
        let mut bar = Rectangle::new(corners, colour.mix(0.8).filled());
        bar.set_margin(4, 4, 0, 0);
        chart.draw_series([bar])?;
    }
    let at = |x: f64| (x, SegmentValue::CenterOf(place));
    let font = ("sans-serif", SIZE).into_font().color(&INK);
    let name = Text::new(
        row.name.clone(),
        (-8, 0),
        font.clone().pos(Pos::new(HPos::Right, VPos::Center)),
    );
    let told = Text::new(
        row.told.clone(),
        (6, 0),
        font.pos(Pos::new(HPos::Left, VPos::Center)),
    );
    chart.draw_series([EmptyElement::at(at(0.0)) + name])?;
    chart.draw_series([EmptyElement::at(at(end)) + told])?;
    Ok(())
}
