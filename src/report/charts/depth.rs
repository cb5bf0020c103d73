//! Chart (b): accept-queue depth over time against its capacity, a panel for each arm.

use super::depth_data::Depth;
use super::frame::{self, BODY, SMALL, Swatch};
use super::scale;
use super::scene::{Area, Scene, Size, Text};
use super::story::{ArmStory, Story};
use super::theme::Theme;
use super::{ChartId, Figure, findings};
use crate::report::table::DROPS;

/// The first trial of an arm as its queue, and when it ended.
pub(super) fn of_arm(arm: &ArmStory<'_>, horizon_us: u64, columns: f64) -> Option<(Depth, u64)> {
    let measured = arm.measured.first()?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a panel is some hundred wide"
    )]
    let depth = Depth::of(measured, horizon_us, columns.max(1.0) as u64)?;
    Some((depth, measured.ended_us))
}

/// The end of the common time axis.
pub(super) fn horizon_us(story: &Story<'_>) -> u64 {
    let ends = story
        .arms
        .iter()
        .filter_map(|arm| arm.measured.first())
        .map(|measured| measured.ended_us);
    ends.max().unwrap_or(0).max(1)
}

/// A plot of depth over time: where it lies, and what its axes span.
pub(super) struct Plot {
    pub(super) area: Area,
    pub(super) horizon_us: u64,
    /// The depth at the upper edge.
    pub(super) most: f64,
}

impl Plot {
    pub(super) fn new(area: Area, horizon_us: u64, depth: &Depth) -> Self {
        #[expect(
            clippy::cast_precision_loss,
            reason = "a capacity is a 32-bit number and one more"
        )]
        let most = f64::from(depth.deepest).max(depth.capacity as f64) * 1.1;
        Self {
            area,
            horizon_us,
            most,
        }
    }

    #[expect(
        clippy::cast_precision_loss,
        reason = "times of a trial are far below 2^53 microseconds"
    )]
    pub(super) fn x(&self, at_us: u64) -> f64 {
        let share = at_us.min(self.horizon_us) as f64 / self.horizon_us as f64;
        self.area.left + self.area.width() * share
    }

    fn y(&self, depth: u32) -> f64 {
        self.area.bottom - self.area.height() * f64::from(depth) / self.most
    }

    #[expect(
        clippy::cast_precision_loss,
        reason = "a capacity is a 32-bit number and one more"
    )]
    pub(super) fn capacity_y(&self, depth: &Depth) -> f64 {
        self.area.bottom - self.area.height() * depth.capacity as f64 / self.most
    }

    /// Gaps, the filled line of each socket, and the capacity.
    pub(super) fn draw(&self, scene: &mut Scene, depth: &Depth, ended_us: u64) {
        let palette = scene.palette();
        for &(from_us, to_us) in &depth.gaps {
            let (left, right) = (self.x(from_us), self.x(to_us));
            scene.hatch(
                Area {
                    left,
                    right,
                    ..self.area
                },
                palette.muted.mixed(palette.paper, 0.5),
            );
        }
        let pieces = || depth.lines.iter().flat_map(|line| &line.pieces);
        for piece in pieces() {
            let edge = |at_us| self.x(at_us);
            let columns = piece
                .iter()
                .map(|one| (edge(one.at_us), self.y(one.most), self.area.bottom))
                .collect();
            let right = piece
                .last()
                .map_or(self.area.left, |one| edge(one.until_us.min(ended_us)));
            scene.marks.push(super::scene::Mark::Band {
                pieces: columns,
                right,
                colour: palette.queue_fill,
            });
        }
        for piece in pieces() {
            let mut corners = Vec::new();
            for column in piece {
                let x = self.x(column.at_us);
                corners.extend(corners.last().map(|&(_, y)| (x, y)));
                corners.extend(
                    [column.first, column.least, column.most, column.last].map(|n| (x, self.y(n))),
                );
            }
            if let (Some(&(_, y)), Some(last)) = (corners.last(), piece.last()) {
                corners.push((self.x(last.until_us.min(ended_us)), y));
            }
            corners.dedup();
            scene.steps(corners, 2.0, palette.queue);
        }
        let y = self.capacity_y(depth);
        scene.dashes(
            (self.area.left, y),
            (self.area.right, y),
            2.0,
            palette.muted,
        );
        scene.horizontal(
            self.area.bottom,
            self.area.left,
            self.area.right,
            1.0,
            palette.muted,
        );
    }
}

/// Chart (b).
pub(super) fn chart(story: &Story<'_>, size: Size, theme: Theme) -> Figure {
    let title = findings::depth(story);
    let text = "accept-queue depth over time, first trial";
    let (mut scene, content) =
        frame::frame(&story.setting, &title, &story.subtitle(text), size, theme);
    let palette = scene.palette();
    let content = frame::legend(
        &mut scene,
        content,
        &[
            (
                Swatch::Filled(palette.queue_fill),
                "connections in the accept queue (Recv-Q)".into(),
            ),
            (
                Swatch::Dashed(palette.muted),
                "its capacity (Send-Q + 1)".into(),
            ),
            (
                Swatch::Tick(palette.ink),
                "packets dropped by the socket".into(),
            ),
            (Swatch::Hatched(palette.muted), "no look".into()),
        ],
    );
    let horizon_us = horizon_us(story);
    let mut told = Vec::new();
    for (arm, panel) in story
        .arms
        .iter()
        .zip(frame::panels(content, story.arms.len(), 58.0))
    {
        told.push(draw_panel(&mut scene, arm, panel, horizon_us));
    }
    let alt = format!(
        "Accept-queue depth over time for each arm, full in a share of the looks until the last client ended. {DROPS} {}",
        told.join("; ")
    );
    Figure {
        id: ChartId::QueueDepth,
        title,
        alt,
        scene,
    }
}

/// Draws an arm's panel and says what it shows.
fn draw_panel(
    scene: &mut Scene,
    arm: &ArmStory<'_>,
    panel: frame::Panel,
    horizon_us: u64,
) -> String {
    let palette = scene.palette();
    let whole = panel.area;
    let high = whole.height() >= 170.0;
    let plot_area = Area {
        left: whole.left + 62.0,
        top: whole.top + if high { 74.0 } else { 44.0 },
        ..whole
    };
    let name = &arm.result.name;
    let Some((depth, ended_us)) = of_arm(arm, horizon_us, plot_area.width()) else {
        let why = if arm.measured.is_empty() {
            arm.problem()
        } else {
            "nothing listened".to_owned()
        };
        axis(scene, panel, plot_area, horizon_us);
        let told = format!("{name}: {why}");
        head(scene, arm, whole, &[why]);
        return told;
    };
    let summary = summary(&depth);
    head(scene, arm, whole, &summary);
    let plot = Plot::new(plot_area, horizon_us, &depth);
    plot.draw(scene, &depth, ended_us);
    drops(scene, &plot, &depth, high);
    let gutter = plot_area.left - 10.0;
    #[expect(
        clippy::cast_precision_loss,
        reason = "a capacity is a 32-bit number and one more"
    )]
    let capacity = scale::count(depth.capacity as f64);
    let capacity = Text::new(
        capacity,
        gutter,
        plot.capacity_y(&depth),
        SMALL,
        palette.ink,
    )
    .bold();
    scene.text(capacity.end().shrunk(58.0).centred());
    let zero = Text::new("0", gutter, plot_area.bottom, SMALL, palette.muted);
    let canvas = scene.canvas();
    scene.text_if_free(zero.end().centred(), canvas);
    if ended_us < horizon_us / 10 * 9 {
        let x = plot.x(ended_us);
        scene.vertical(x, plot_area.top, plot_area.bottom, 1.0, palette.muted);
        #[expect(
            clippy::cast_precision_loss,
            reason = "times of a trial are far below 2^53 microseconds"
        )]
        let text = format!("over after {}", scale::time(ended_us as f64 / 1_000.0));
        let text = Text::new(
            text,
            x + 10.0,
            plot_area.middle() + 6.0,
            SMALL,
            palette.muted,
        );
        scene.text_if_free(text.centred(), plot_area);
    }
    axis(scene, panel, plot_area, horizon_us);
    format!("{name}: {}", summary.join(", "))
}

/// `deepest 2 of 2`, `full in 97 % of the looks`, `344 drops`.
fn summary(depth: &Depth) -> Vec<String> {
    #[expect(
        clippy::cast_precision_loss,
        reason = "counts of a trial are far below 2^53"
    )]
    let many = |n: u64| scale::count(n as f64);
    let sockets = match depth.lines.len() {
        1 => String::new(),
        n => format!("{n} sockets, "),
    };
    let full = match depth.full_share {
        Some(share) if share > 0.0 => format!("full in {} of the looks", scale::percent(share)),
        Some(_) => "never seen full".into(),
        None => "no look".into(),
    };
    let drops = match (depth.dropped(), depth.unseen()) {
        (None, _) => "drops unknown".into(),
        (Some(0), _) => "no drops".into(),
        (Some(n), None) => format!("{} drops", many(n)),
        (Some(n), Some(_)) => format!(
            "but {} drops: bursts shorter than the sampling interval",
            many(n)
        ),
    };
    vec![
        format!(
            "{sockets}deepest {} of {}",
            many(depth.deepest.into()),
            many(depth.capacity)
        ),
        full,
        drops,
    ]
}

/// The arm's label, and beside it as much of what the panel shows as has room.
pub(super) fn head(scene: &mut Scene, arm: &ArmStory<'_>, area: Area, summary: &[String]) {
    const BETWEEN: f64 = 18.0;
    let palette = scene.palette();
    let y = area.top + 20.0;
    let name = Text::new(&arm.short, area.left, y, BODY, palette.ink).bold();
    let least = name.width();
    let told =
        |n: usize| Text::new(summary[..n].join(", "), area.right, y, SMALL, palette.muted).end();
    let fits = |n: &usize| told(*n).width() <= area.width() - least - BETWEEN;
    let told = told((0..=summary.len()).rev().find(fits).unwrap_or(0));
    let name = name.within(area.width() - told.width() - BETWEEN);
    let used = name.width();
    scene.text(name);
    if let Some(title) = arm.title {
        let x = area.left + used + 14.0;
        let title = Text::new(title, x, y, SMALL, palette.muted);
        if x + title.width() + BETWEEN <= area.right - told.width() {
            scene.text(title);
        }
    }
    scene.text(told);
}

/// Drops as bars above the plot, as high as they are many, each burst with its number where there is room.
fn drops(scene: &mut Scene, plot: &Plot, depth: &Depth, numbered: bool) {
    const HIGHEST: f64 = 16.0;
    let palette = scene.palette();
    let foot = plot.area.top - 2.0;
    #[expect(
        clippy::cast_precision_loss,
        reason = "counts of a trial are far below 2^53"
    )]
    let n = |n: u64| n as f64;
    // All drops within a unit of length are one bar.
    let mut bars: Vec<(f64, f64)> = Vec::new();
    for drop in depth.drops.iter().flatten() {
        let x = plot.x(drop.at_us).round();
        match bars.last_mut() {
            Some(bar) if (bar.0 - x).abs() < 2.5 => bar.1 += n(drop.n),
            _ => bars.push((x, n(drop.n))),
        }
    }
    let most = bars.iter().map(|bar| bar.1).fold(1.0, f64::max);
    for (x, n) in bars {
        let height = (HIGHEST * (n / most).sqrt()).max(4.0);
        scene.fill(
            Area::new(x - 1.5, foot - height, x + 1.5, foot),
            palette.ink,
        );
    }
    if !numbered {
        return;
    }
    let mut bursts = depth.bursts();
    bursts.sort_by_key(|burst| std::cmp::Reverse(burst.n));
    for burst in bursts {
        let x = plot.x(burst.from_us);
        let words = if burst.n == 1 {
            "1 drop".into()
        } else {
            format!("{} drops", scale::count(n(burst.n)))
        };
        let text = Text::new(words, x - 1.5, foot - HIGHEST - 5.0, SMALL, palette.ink);
        let band = Area {
            top: plot.area.top - 60.0,
            bottom: plot.area.top,
            ..plot.area
        };
        let fits = text.area().right <= plot.area.right;
        let text = if fits {
            text
        } else {
            Text {
                x: plot.x(burst.to_us) + 1.5,
                ..text
            }
            .end()
        };
        scene.text_if_free(
            text,
            Area {
                left: band.left - 2.0,
                right: band.right + 2.0,
                ..band
            },
        );
    }
}

/// The time axis below the lowest panels.
fn axis(scene: &mut Scene, panel: frame::Panel, plot: Area, horizon_us: u64) {
    if panel.lowest {
        time_axis(
            scene,
            plot,
            horizon_us,
            panel.first,
            "time since the clients' start",
        );
    }
}

/// Ticks of a time axis below a plot, and what they mean.
pub(super) fn time_axis(
    scene: &mut Scene,
    plot: Area,
    horizon_us: u64,
    titled: bool,
    meaning: &str,
) {
    if horizon_us <= 1 {
        // Nothing took any time: there is nothing to measure it by.
        return;
    }
    let palette = scene.palette();
    #[expect(
        clippy::cast_precision_loss,
        reason = "times of a trial are far below 2^53 microseconds"
    )]
    let most_ms = horizon_us as f64 / 1_000.0;
    for (tick, label) in scale::time_ticks(most_ms, (plot.width() / 130.0).clamp(2.0, 10.0)) {
        let x = plot.left + plot.width() * tick / most_ms;
        scene.vertical(x, plot.bottom, plot.bottom + 6.0, 1.0, palette.muted);
        let canvas = scene.canvas();
        scene.text_if_free(
            Text::new(label, x, plot.bottom + 26.0, SMALL, palette.muted).middle(),
            canvas,
        );
    }
    if titled {
        let text = Text::new(meaning, plot.left, plot.bottom + 52.0, SMALL, palette.muted);
        let canvas = scene.canvas();
        scene.text_if_free(text, canvas);
    }
}
