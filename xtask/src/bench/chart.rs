//! Bars on a logarithmic scale, as an SVG that is readable on light and on dark pages.

use std::fmt::Write as _;

/// Bars of one colour, one per name.
#[derive(Debug)]
pub(super) struct Series {
    name: String,
    pub(super) values: Vec<f64>,
}

impl Series {
    /// Without bars.
    pub(super) fn new(name: &str) -> Self {
        Series { name: name.to_string(), values: Vec::new() }
    }
}

const WIDTH: f64 = 760.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 60.0;
const TOP: f64 = 64.0;
const BAR: f64 = 9.0;
const GAP: f64 = 8.0;
const STYLE: &str = "text{font:12px sans-serif;fill:#24292f}.title{font-size:14px;font-weight:600}.value{font-size:9px}.grid{stroke:#8c959f;\
                     stroke-opacity:.35}.s0{fill:#0a5bb5}.s1{fill:#c2570c}@media(prefers-color-scheme:dark){text{fill:#e6edf3}\
                     .s0{fill:#58a6ff}.s1{fill:#f0883e}}";

/// The chart: a group of bars per name, one of each series.
pub(super) fn svg(title: &str, names: &[String], series: &[Series]) -> String {
    let values = || series.iter().flat_map(|series| &series.values).copied().filter(|value| *value > 0.0);
    let low = values().fold(f64::INFINITY, f64::min).log10().floor().min(0.0);
    let high = values().fold(f64::NEG_INFINITY, f64::max).log10().ceil().max(low + 1.0);
    let x = |value: f64| LEFT + (value.log10() - low) / (high - low) * (WIDTH - LEFT - RIGHT);
    let group = BAR * series.len() as f64 + GAP;
    let bottom = TOP + group * names.len() as f64;
    let mut out = String::new();
    // Writing to a string does not fail.
    let _ = write!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {}\" role=\"img\" aria-label=\"{title}\"><style>{STYLE}</style>\n\
         <text class=\"title\" x=\"{LEFT}\" y=\"20\">{title}</text>\n",
        bottom + 44.0
    );
    for (number, series) in series.iter().enumerate() {
        let at = LEFT + 180.0 * number as f64;
        let _ = writeln!(
            out,
            "<rect class=\"s{number}\" x=\"{at}\" y=\"34\" width=\"12\" height=\"12\"/><text x=\"{}\" y=\"44\">{}</text>",
            at + 18.0,
            series.name
        );
    }
    for power in low as i32..=high as i32 {
        let (at, label) = (x(10f64.powi(power)), 10f64.powi(power));
        let _ = writeln!(
            out,
            "<line class=\"grid\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{TOP}\" y2=\"{bottom}\"/><text x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{label}</text>",
            bottom + 16.0
        );
    }
    let _ = writeln!(
        out,
        "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">millions of events per CPU second, logarithmic</text>",
        (LEFT + WIDTH - RIGHT) / 2.0,
        bottom + 36.0
    );
    for (row, name) in names.iter().enumerate() {
        let top = TOP + group * row as f64 + GAP / 2.0;
        let middle = top + BAR * series.len() as f64 / 2.0 + 4.0;
        let _ = writeln!(out, "<text x=\"{}\" y=\"{middle}\" text-anchor=\"end\">{name}</text>", LEFT - 8.0);
        for (number, series) in series.iter().enumerate() {
            let Some(value) = series.values.get(row).copied().filter(|value| *value > 0.0) else { continue };
            let (y, end) = (top + BAR * number as f64, x(value));
            let _ = writeln!(
                out,
                "<rect class=\"s{number}\" x=\"{LEFT}\" y=\"{y}\" width=\"{:.1}\" height=\"{}\"/><text class=\"value\" x=\"{:.1}\" y=\"{}\">{value:.2}</text>",
                (end - LEFT).max(1.0),
                BAR - 1.0,
                end + 4.0,
                y + BAR - 1.5
            );
        }
    }
    out.push_str("</svg>\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_ends_where_its_value_stands_on_the_axis() {
        let series = [Series { name: "one".into(), values: vec![10.0, 1.0] }, Series { name: "two".into(), values: vec![100.0, 0.0] }];
        let chart = svg("title", &["a".into(), "b".into()], &series);
        // From 1 to 100 on 630 points: ten is in the middle.
        assert!(chart.contains("x=\"70\" y=\"68\" width=\"315.0\""), "{chart}");
        assert!(chart.contains("x=\"70\" y=\"77\" width=\"630.0\""), "{chart}");
        assert_eq!(chart.matches("<rect").count(), 2 + 3);
    }
}
