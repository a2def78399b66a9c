//! Plots of the report as SVG.

use plotters::coord::Shift;
use plotters::coord::ranged1d::SegmentedCoord;
use plotters::coord::types::{RangedCoordf64, RangedCoordusize};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::error::{Error, Result};
use crate::evaluation::{Estimate, Scores};

pub(super) const BLUE: RGBColor = RGBColor(0x2f, 0x6e, 0xa8);
pub(super) const ORANGE: RGBColor = RGBColor(0xd9, 0x8c, 0x3f);
pub(super) const GREEN: RGBColor = RGBColor(0x3a, 0x96, 0x62);
pub(super) const RED: RGBColor = RGBColor(0xc2, 0x4a, 0x43);
pub(super) const INK: RGBColor = RGBColor(0x1d, 0x27, 0x33);
pub(super) const LINE: RGBColor = RGBColor(0xe1, 0xe7, 0xed);

pub(super) const WIDE: u32 = 880;
pub(super) const NARROW: u32 = 480;
const HEIGHT: u32 = 240;
const ROW: u32 = 34;
const BINS: usize = 20;

pub(super) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Rows<'a, 'b> =
    ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, SegmentedCoord<RangedCoordusize>>>;
pub(super) type Drawn = Result<(), DrawingAreaErrorKind<std::io::Error>>;

pub(super) fn svg(size: (u32, u32), draw: impl FnOnce(&Area) -> Drawn) -> Result<String> {
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, size).into_drawing_area();
        draw(&area)
            .and_then(|()| area.present())
            .map_err(|e| Error::internal("a plot can't be drawn").caused_by(e.to_string()))?;
    }
    Ok(text)
}

/// A bar a configuration, with its interval; the first one is on top.
pub(super) fn bars(bars: &[(&str, Estimate)]) -> Result<String> {
    let top = bars.iter().map(|(_, e)| e.high).fold(0.05, f64::max) * 1.12;
    // An axis of one segment has no length, and nothing on it would show.
    let count = bars.len().max(2);
    svg((WIDE, ROW * count as u32 + 50), |area| {
        let mut chart = ChartBuilder::on(area)
            .margin(8)
            .set_label_area_size(LabelAreaPosition::Left, 190)
            .set_label_area_size(LabelAreaPosition::Bottom, 28)
            .build_cartesian_2d(0.0..top, (0..count - 1).into_segmented())?;
        chart
            .configure_mesh()
            .disable_y_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(LINE)
            .axis_style(LINE)
            .x_label_formatter(&|x| format!("{x:.2}"))
            .y_label_formatter(&|_| String::new())
            .label_style(("sans-serif", 14).into_font().color(&INK))
            .draw()?;
        for (index, (name, estimate)) in bars.iter().enumerate() {
            bar(&mut chart, count - 1 - index, name, *estimate)?;
        }
        Ok(())
    })
}

/// One row: the bar, its interval, its name on the left and its value on the right.
fn bar(chart: &mut Rows, row: usize, name: &str, estimate: Estimate) -> Drawn {
    let (below, above) = (SegmentValue::Exact(row), SegmentValue::Exact(row + 1));
    let corners = [(0.0, below), (estimate.mean, above)];
    let mut bar = Rectangle::new(corners, BLUE.mix(0.75).filled());
    bar.set_margin(6, 6, 0, 0);
    chart.draw_series([bar])?;
    let at = |x: f64| (x, SegmentValue::CenterOf(row));
    let ends = vec![at(estimate.low), at(estimate.high)];
    chart.draw_series([PathElement::new(ends, INK)])?;
    let cap = || PathElement::new(vec![(0, -4), (0, 4)], INK);
    let font = ("sans-serif", 14).into_font().color(&INK);
    let value = Text::new(format!("{:.3}", estimate.mean), (8, -6), font.clone());
    let beside = font.pos(Pos::new(HPos::Right, VPos::Center));
    let name = Text::new(name.to_owned(), (-10, 0), beside);
    chart.draw_series([EmptyElement::at(at(0.0)) + name])?;
    chart.draw_series([EmptyElement::at(at(estimate.low)) + cap()])?;
    chart.draw_series([EmptyElement::at(at(estimate.high)) + cap() + value])?;
    Ok(())
}

/// A bar a query, from the greatest win to the greatest loss; what didn't change is the gap between.
pub(super) fn deltas(differences: &[f64]) -> Result<String> {
    let mut sorted = differences.to_vec();
    sorted.sort_by(|a, b| b.total_cmp(a));
    let reach = sorted.iter().fold(0.1_f64, |reach, d| reach.max(d.abs())) * 1.05;
    svg((NARROW, HEIGHT), |area| {
        let mut chart = ChartBuilder::on(area)
            .margin(8)
            .set_label_area_size(LabelAreaPosition::Left, 48)
            .build_cartesian_2d(0.0..sorted.len().max(1) as f64, -reach..reach)?;
        // Adding 0 makes -0 a plain 0.
        let label = |y: &f64| format!("{:+.1}", (y * 10.0).round() / 10.0 + 0.0);
        chart
            .configure_mesh()
            .disable_x_mesh()
            .disable_x_axis()
            .light_line_style(TRANSPARENT)
            .bold_line_style(LINE)
            .axis_style(LINE)
            .y_labels(7)
            .y_label_formatter(&label)
            .label_style(("sans-serif", 13).into_font().color(&INK))
            .draw()?;
        let moved = sorted.iter().enumerate().filter(|(_, d)| **d != 0.0);
        chart.draw_series(moved.map(|(index, difference)| {
            let colour = if *difference > 0.0 { GREEN } else { RED };
            let x = index as f64;
            Rectangle::new([(x, 0.0), (x + 1.0, *difference)], colour.filled())
        }))?;
        let zero = PathElement::new(vec![(0.0, 0.0), (sorted.len() as f64, 0.0)], INK);
        chart.draw_series([zero])?;
        Ok(())
    })
}

/// Shares of relevant and of irrelevant chunks by score, side by side: their numbers differ too much for counts.
pub(super) fn histogram(scores: &Scores) -> Result<String> {
    let (low, width) = grid(scores);
    let sides = [(&scores.relevant, BLUE), (&scores.irrelevant, ORANGE)];
    let shares = sides.map(|(values, _)| shares(values, low, width));
    let top = shares
        .iter()
        .flatten()
        .fold(0.05_f64, |top, share| top.max(*share))
        * 1.08;
    svg((NARROW, HEIGHT), |area| {
        let mut chart = ChartBuilder::on(area)
            .margin(8)
            .set_label_area_size(LabelAreaPosition::Left, 48)
            .set_label_area_size(LabelAreaPosition::Bottom, 28)
            .build_cartesian_2d(low..low + width * BINS as f64, 0.0..top)?;
        let percent = |share: &f64| format!("{:.0} %", share * 100.0);
        let digits = if width < 0.025 { 3 } else { 1 };
        let score = |score: &f64| format!("{score:.digits$}");
        chart
            .configure_mesh()
            .disable_x_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(LINE)
            .axis_style(LINE)
            .x_labels(6)
            .y_labels(5)
            .x_label_formatter(&score)
            .y_label_formatter(&percent)
            .label_style(("sans-serif", 13).into_font().color(&INK))
            .draw()?;
        for (side, ((_, colour), shares)) in sides.iter().zip(&shares).enumerate() {
            let bars = shares.iter().enumerate().map(|(bin, share)| {
                let left = low + width * (bin as f64 + 0.06 + 0.44 * side as f64);
                Rectangle::new(
                    [(left, 0.0), (left + width * 0.44, *share)],
                    colour.filled(),
                )
            });
            chart.draw_series(bars)?;
        }
        Ok(())
    })
}

/// The lowest score, and the width of a bin.
fn grid(scores: &Scores) -> (f64, f64) {
    let all = || scores.relevant.iter().chain(&scores.irrelevant).copied();
    let (low, high) = (
        all().fold(f64::MAX, f64::min),
        all().fold(f64::MIN, f64::max),
    );
    (low, ((high - low) / BINS as f64).max(1e-6))
}

fn shares(values: &[f64], low: f64, width: f64) -> [f64; BINS] {
    let mut shares = [0.0; BINS];
    for value in values {
        let bin = (((value - low) / width) as usize).min(BINS - 1);
        shares[bin] += 1.0 / values.len() as f64;
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_a_side_add_up() {
        let shares = shares(&[0.0, 0.5, 0.5, 1.0], 0.0, 0.05);
        assert_eq!((shares[0], shares[10], shares[19]), (0.25, 0.5, 0.25));
    }

    #[test]
    fn odd_inputs_are_drawn_too() {
        let one = Scores {
            kind: "RRF".into(),
            relevant: vec![0.5],
            irrelevant: vec![],
        };
        assert!(histogram(&one).expect("drawn").contains("<rect"));
        assert!(deltas(&[0.0, 0.0]).expect("drawn").contains("<svg"));
        assert!(deltas(&[]).is_ok() && bars(&[]).is_ok());
        let estimate = Estimate {
            mean: 0.0,
            low: 0.0,
            high: 0.0,
        };
        let one = Estimate {
            mean: 0.5,
            high: 0.6,
            ..estimate
        };
        let drawn = bars(&[("a <b>", one)]).expect("drawn");
        assert!(drawn.contains("a &lt;b&gt;") && drawn.contains("fill=\"#2F6EA8\""));
    }
}
