//! Chart (d): how the kernel's counters grew, a row for each arm and a column for each counter.

use super::font;
use super::frame::{self, BODY, SMALL};
use super::scale;
use super::scene::{Area, Scene, Size, Text};
use super::story::{ArmStory, Story};
use super::theme::Theme;
use super::{ChartId, Figure, findings};

/// Chart (d).
pub(super) fn chart(story: &Story<'_>, size: Size, theme: Theme) -> Figure {
    const HEAD: f64 = 62.0;
    const BETWEEN: f64 = 30.0;
    let title = findings::counters(story);
    let text = "growth of the server's kernel counters; every column has a scale of its own";
    let subtitle = story.subtitle_of_means(text);
    let (mut scene, content) = frame::frame(&story.setting, &title, &subtitle, size, theme);
    let palette = scene.palette();
    let body = Area {
        top: content.top + HEAD,
        ..content
    };
    let rows = frame::rows(body, story.arms.len(), 176.0);
    let height = rows.first().map_or(0.0, |row| row.height());
    let label_width = frame::label_width(&story.arms, body, height);
    let counters: Vec<_> = story.counters().into_values().collect();
    let left = body.left + label_width + BETWEEN;
    #[expect(clippy::cast_precision_loss, reason = "a picture has few columns")]
    let width = (body.right - left) / counters.len() as f64;
    for (arm, row) in story.arms.iter().zip(&rows) {
        scene.horizontal(row.top, body.left, body.right, 1.0, palette.grid);
        frame::row_label(&mut scene, arm, *row, label_width);
    }
    let mut x = left;
    for (name, growth) in &counters {
        let column = Area {
            left: x,
            right: x + width - BETWEEN,
            ..body
        };
        heading(&mut scene, name, column);
        let most = growth.iter().flatten().copied().fold(0.0, f64::max);
        let numbers: Vec<String> = growth
            .iter()
            .zip(&story.arms)
            .map(|(one, arm)| one.map_or_else(|| unknown(arm), scale::count))
            .collect();
        let number_room = numbers
            .iter()
            .map(|n| font::width(n, BODY, true))
            .fold(0.0, f64::max)
            + 10.0;
        for ((growth, number), row) in growth.iter().zip(&numbers).zip(&rows) {
            let known = growth.filter(|_| most > 0.0).unwrap_or(0.0);
            let length = (column.width() - number_room).max(0.0) * known.max(0.0) / most.max(1.0);
            let half = (row.height() * 0.26).min(30.0);
            scene.fill(
                Area::new(x, row.middle() - half, x + length, row.middle() + half),
                palette.queue,
            );
            let colour = if known > 0.0 {
                palette.ink
            } else {
                palette.muted
            };
            let gap = if length > 0.0 { 8.0 } else { 0.0 };
            let text = Text::new(number, x + length + gap, row.middle(), BODY, colour)
                .bold()
                .centred();
            scene.text(text.shrunk(column.right + BETWEEN - x - length - gap - 4.0));
        }
        x += width;
    }
    let told = story.arms.iter().enumerate().map(|(n, arm)| {
        let parts = counters.iter().map(|(name, growth)| {
            let grown = growth[n].map_or_else(|| unknown(arm), scale::count);
            format!("{name} {grown}")
        });
        format!(
            "{}: {}",
            arm.result.name,
            parts.collect::<Vec<_>>().join(", ")
        )
    });
    let alt = format!(
        "Growth of kernel counters. {}",
        told.collect::<Vec<_>>().join("; ")
    );
    Figure {
        id: ChartId::Counters,
        title,
        alt,
        scene,
    }
}

/// Why there is no number: an arm without a valid trial says what its trials were.
fn unknown(arm: &ArmStory<'_>) -> String {
    if arm.outcomes.is_none() {
        arm.problem()
    } else {
        "unknown".into()
    }
}

/// A counter's name: its section above, the name broken between its words where it must be.
fn heading(scene: &mut Scene, name: &str, column: Area) {
    let palette = scene.palette();
    let name = name.split_once('.').map_or(name, |(_, name)| name);
    let words = words(name);
    let mut lines = vec![String::new()];
    for word in words {
        let line = lines
            .last()
            .map(|line| format!("{line}{word}"))
            .unwrap_or_default();
        if font::width(&line, SMALL, true) <= column.width()
            || lines.last().is_some_and(String::is_empty)
        {
            lines.pop();
            lines.push(line);
        } else {
            lines.push(word.to_owned());
        }
    }
    if lines.len() > 2 {
        let rest = lines.split_off(1).concat();
        lines.push(rest);
    }
    let first = column.top - 14.0 - 24.0 * if lines.len() > 1 { 1.0 } else { 0.0 };
    for (line, y) in lines.iter().zip([first, first + 24.0]) {
        let text = Text::new(line, column.left, y, SMALL, palette.ink).bold();
        scene.text(text.shrunk(column.width()));
    }
}

/// `TCPReqQFullDrop` as its words `TCP`, `Req`, `QFull`, `Drop`: broken before a capital after a small letter.
fn words(name: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut start = 0;
    let mut before = ' ';
    for (at, c) in name.char_indices() {
        if c.is_uppercase() && before.is_lowercase() {
            words.push(&name[start..at]);
            start = at;
        }
        before = c;
    }
    words.push(&name[start..]);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_break_between_their_words() {
        assert_eq!(words("ListenOverflows"), ["Listen", "Overflows"]);
        assert_eq!(words("TCPReqQFullDrop").concat(), "TCPReqQFullDrop");
    }
}
