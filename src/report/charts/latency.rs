//! Chart (c): what had become of the clients by which time after their start, a panel for each arm.

use super::frame::{self, SMALL, Swatch};
use super::latency_data::{CLUSTER_US, Cluster, Latency};
use super::scale;
use super::scene::{Area, Mark, Scene, Size, Text};
use super::story::{ArmStory, Story};
use super::theme::{Rgb, Theme};
use super::{ChartId, Figure, bars, depth, findings};
use crate::result::{Outcome, ms};

/// Chart (c).
pub(super) fn chart(story: &Story<'_>, size: Size, theme: Theme) -> Figure {
    let latencies: Vec<Latency> = story
        .arms
        .iter()
        .map(|arm| Latency::of(&arm.measured))
        .collect();
    let title = findings::latency(story, &latencies);
    let text = "what had become of the clients; blank: still connecting; those that gave up hang from above";
    let (mut scene, content) =
        frame::frame(&story.setting, &title, &story.subtitle(text), size, theme);
    let palette = scene.palette();
    let mut entries = bars::outcome_legend(story, theme);
    entries.insert(
        1,
        (
            Swatch::Filled(waiting(&scene)),
            "connected, waiting for the answer".into(),
        ),
    );
    entries.push((
        Swatch::Dashed(palette.muted),
        "the client's kernel repeats its SYN".into(),
    ));
    let content = frame::legend(&mut scene, content, &entries);
    let horizon_us = latencies
        .iter()
        .map(Latency::last_us)
        .max()
        .unwrap_or(0)
        .max(1);
    // What ends at the end of the axis is still seen.
    let horizon_us = horizon_us + horizon_us / 50;
    let panels = frame::panels(content, story.arms.len(), 58.0);
    let mut told = Vec::new();
    for ((arm, latency), panel) in story.arms.iter().zip(&latencies).zip(panels) {
        let summary = summary(arm, latency);
        depth::head(&mut scene, arm, panel.area, &summary);
        let top = panel.area.top
            + if panel.area.height() >= 150.0 {
                60.0
            } else {
                36.0
            };
        let plot = Area {
            left: panel.area.left + 62.0,
            top,
            right: panel.area.right - 82.0,
            ..panel.area
        };
        draw(&mut scene, latency, plot, horizon_us);
        if panel.lowest {
            depth::time_axis(
                &mut scene,
                plot,
                horizon_us,
                panel.first,
                "time since each client's start",
            );
        }
        told.push(format!("{}: {}", arm.result.name, summary.join(", ")));
    }
    let alt = format!(
        "Share of clients answered, waiting and given up by time. {}",
        told.join("; ")
    );
    Figure {
        id: ChartId::Latency,
        title,
        alt,
        scene,
    }
}

/// A tint of success: a client that waits may still have it.
fn waiting(scene: &Scene) -> Rgb {
    let share = if scene.theme == Theme::Dark { 0.5 } else { 0.3 };
    scene
        .palette()
        .paper
        .mixed(scene.theme.outcome(Outcome::Ok), share)
}

#[expect(
    clippy::cast_precision_loss,
    reason = "times and counts of a trial are far below 2^53"
)]
const fn number(n: u64) -> f64 {
    n as f64
}

/// `29 answered within 1.9 s`, `171 connect timeout`.
fn summary(arm: &ArmStory<'_>, latency: &Latency) -> Vec<String> {
    if arm.measured.is_empty() {
        return vec![arm.problem()];
    }
    let mut parts = Vec::new();
    if let Some(&slowest) = latency.well_us.last() {
        let n = scale::count(number(latency.well_us.len() as u64));
        parts.push(format!(
            "{n} {} within {}",
            arm.well(),
            scale::time(ms(slowest))
        ));
    }
    parts.extend(
        latency
            .lost_us
            .iter()
            .map(|(class, times)| format!("{} {class}", scale::count(number(times.len() as u64)))),
    );
    parts
}

fn draw(scene: &mut Scene, latency: &Latency, plot: Area, horizon_us: u64) {
    let palette = scene.palette();
    let attempts = number(latency.attempts.max(1) as u64);
    let height = |n: usize| plot.height() * number(n as u64) / attempts;
    let columns = plot.width().round().max(1.0);
    let mut well = Vec::new();
    let mut waiting_band = Vec::new();
    let mut lost: Vec<Vec<(f64, f64, f64)>> = vec![Vec::new(); latency.lost_us.len()];
    let push = |band: &mut Vec<(f64, f64, f64)>, piece: (f64, f64, f64)| {
        let same = band
            .last()
            .is_some_and(|last| (last.1, last.2) == (piece.1, piece.2));
        if !same {
            band.push(piece);
        }
    };
    let mut x = 0.0;
    while x < columns {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "below the horizon"
        )]
        let at_us = ((x + 1.0) / columns * number(horizon_us)) as u64;
        let states = latency.states(at_us);
        let left = plot.left + plot.width() * x / columns;
        let well_top = plot.bottom - height(states.well);
        push(&mut well, (left, well_top, plot.bottom));
        push(
            &mut waiting_band,
            (left, well_top - height(states.waiting), well_top),
        );
        let mut top = plot.top;
        for (band, n) in lost.iter_mut().zip(states.lost) {
            push(band, (left, top, top + height(n)));
            top += height(n);
        }
        x += 1.0;
    }
    for share in [0.0, 0.5, 1.0] {
        let y = plot.bottom - plot.height() * share;
        scene.horizontal(y, plot.left, plot.right, 1.0, palette.grid);
        let label = Text::new(
            scale::percent(share),
            plot.left - 10.0,
            y,
            SMALL,
            palette.muted,
        );
        scene.text(label.end().centred());
    }
    let ok = scene.theme.outcome(Outcome::Ok);
    let waiting = waiting(scene);
    let classes = latency
        .lost_us
        .iter()
        .map(|(class, _)| scene.theme.outcome(*class))
        .collect::<Vec<_>>();
    let bands = [(well, ok), (waiting_band, waiting)]
        .into_iter()
        .chain(lost.into_iter().zip(classes));
    for (pieces, colour) in bands {
        scene.marks.push(Mark::Band {
            pieces,
            right: plot.right,
            colour,
        });
    }
    scene.horizontal(plot.bottom, plot.left, plot.right, 1.0, palette.muted);
    retries(scene, latency, plot, horizon_us);
    ends(scene, latency, plot);
    clusters(scene, latency, plot, horizon_us);
}

fn x_of(plot: Area, at_us: u64, horizon_us: u64) -> f64 {
    plot.left + plot.width() * number(at_us) / number(horizon_us)
}

/// The instants at which a client's kernel repeats its SYN.
fn retries(scene: &mut Scene, latency: &Latency, plot: Area, horizon_us: u64) {
    let palette = scene.palette();
    for &at_us in latency
        .retries_us
        .iter()
        .filter(|at_us| **at_us <= horizon_us)
    {
        let x = x_of(plot, at_us, horizon_us);
        scene.dashes((x, plot.top - 8.0), (x, plot.bottom), 1.5, palette.muted);
    }
}

/// Final counts beside the right edge, each at the height of its band.
fn ends(scene: &mut Scene, latency: &Latency, plot: Area) {
    let attempts = number(latency.attempts.max(1) as u64);
    let mut labels = Vec::new();
    let mut top = 0.0;
    for (class, times) in &latency.lost_us {
        let n = number(times.len() as u64);
        labels.push((
            plot.top + plot.height() * (top + n / 2.0) / attempts,
            n,
            *class,
        ));
        top += n;
    }
    let well = number(latency.well_us.len() as u64);
    labels.push((
        plot.bottom - plot.height() * well / attempts / 2.0,
        well,
        Outcome::Ok,
    ));
    labels.retain(|(_, n, _)| *n > 0.0);
    // Where there is no room for all, those of the most clients stay.
    let places = loop {
        let places: Vec<f64> = labels.iter().map(|label| label.0).collect();
        if let Some(places) = scale::apart(&places, SMALL, plot.top + 6.0, plot.bottom - 6.0) {
            break places;
        }
        let fewest = labels
            .iter()
            .enumerate()
            .min_by(|a, b| a.1.1.total_cmp(&b.1.1));
        match fewest.map(|(n, _)| n) {
            Some(n) => labels.remove(n),
            None => return,
        };
    };
    let palette = scene.palette();
    for ((_, n, class), y) in labels.into_iter().zip(places) {
        let swatch = Area::new(plot.right + 6.0, y - 7.0, plot.right + 10.0, y + 7.0);
        scene.fill(swatch, scene.theme.outcome(class));
        let text = Text::new(scale::count(n), plot.right + 16.0, y, SMALL, palette.ink).bold();
        scene.text(text.shrunk(66.0).centred());
    }
}

/// `28 within 0.1 s`, `69 at 1.0 to 1.1 s`.
fn cluster_words(cluster: Cluster) -> String {
    let n = scale::count(number(cluster.n as u64));
    let (from, to) = (
        scale::time(ms(cluster.from_us)),
        scale::time(ms(cluster.to_us)),
    );
    if cluster.from_us < CLUSTER_US {
        format!("{n} within {to}")
    } else if from == to {
        format!("{n} at {to}")
    } else {
        format!("{n} at {from} to {to}")
    }
}

/// Where answers come in clusters, each says how many it has.
fn clusters(scene: &mut Scene, latency: &Latency, plot: Area, horizon_us: u64) {
    let palette = scene.palette();
    let clusters = latency.clusters();
    if clusters.len() < 2 {
        return;
    }
    let band = Area {
        left: plot.left - 60.0,
        top: plot.top - 30.0,
        right: plot.right + 70.0,
        bottom: plot.top,
    };
    // In the order of time; one that meets the label before it moves to the right of that.
    let mut free_from = band.left;
    for cluster in clusters {
        let words = cluster_words(cluster);
        let text = Text::new(words, 0.0, plot.top - 12.0, SMALL, palette.ink);
        let at = x_of(plot, cluster.from_us, horizon_us);
        let x = at.min(band.right - text.width()).max(free_from);
        let text = Text { x, ..text };
        let right = text.area().right;
        if scene.text_if_free(text, band) {
            free_from = right + 16.0;
        }
    }
}
