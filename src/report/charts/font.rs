//! The embedded typeface: measuring, shortening and registering. No font of the system is ever looked at.

use std::sync::LazyLock;

use ab_glyph::{Font as _, FontRef, ScaleFont as _};
use plotters::style::{FontStyle, register_font};

/// The name under which the painter finds the typeface. An SVG viewer without Inter goes on to the next name;
/// each of them is narrower, so that what does not overlap here does not overlap there.
pub(super) const FAMILY: &str = "Inter, Helvetica, Arial, sans-serif";

static REGULAR: &[u8] = include_bytes!("../../../assets/fonts/Inter-Regular.ttf");
static BOLD: &[u8] = include_bytes!("../../../assets/fonts/Inter-Bold.ttf");

static FACES: LazyLock<Option<[FontRef<'static>; 2]>> = LazyLock::new(|| {
    register_font(FAMILY, FontStyle::Normal, REGULAR).ok()?;
    register_font(FAMILY, FontStyle::Bold, BOLD).ok()?;
    Some([
        FontRef::try_from_slice(REGULAR).ok()?,
        FontRef::try_from_slice(BOLD).ok()?,
    ])
});

fn face(bold: bool) -> Option<&'static FontRef<'static>> {
    FACES.as_ref().map(|faces| &faces[usize::from(bold)])
}

/// Makes the typeface known to the painter.
///
/// # Errors
/// The embedded bytes are no font.
pub(super) fn register() -> Result<(), String> {
    face(false)
        .map(|_| ())
        .ok_or_else(|| "the embedded typeface cannot be read".into())
}

/// Line height over em: what the rasterizer calls the size of a font is its line height.
pub(super) fn line_height() -> f32 {
    face(false).map_or(1.0, |face| {
        face.height_unscaled() / face.units_per_em().unwrap_or(1.0)
    })
}

/// The width of a text whose em is `size` long.
pub(super) fn width(text: &str, size: f64, bold: bool) -> f64 {
    let Some(face) = face(bold) else {
        return 0.0;
    };
    let scaled = face.as_scaled(100.0 * line_height());
    let advance: f32 = text
        .chars()
        .map(|c| scaled.h_advance(scaled.glyph_id(c)))
        .sum();
    f64::from(advance) * size / 100.0
}

/// The text, or as much of its beginning and end as fits, with an ellipsis between them: names of a matrix
/// differ at their ends.
pub(super) fn fitted(text: &str, size: f64, bold: bool, room: f64) -> String {
    if width(text, size, bold) <= room {
        return text.to_owned();
    }
    let chars: Vec<char> = text.chars().collect();
    for kept in (0..chars.len()).rev() {
        let tail = kept / 2;
        let head: String = chars[..kept - tail].iter().collect();
        let tail: String = chars[chars.len() - tail..].iter().collect();
        let short = format!("{}\u{2026}{}", head.trim_end(), tail.trim_start());
        if width(&short, size, bold) <= room {
            return short;
        }
    }
    String::new()
}

/// As many of the parts as fit, with an ellipsis for the others; nothing when not even one does.
pub(super) fn listed(parts: &[String], size: f64, bold: bool, room: f64) -> String {
    let first = |n: usize| match n {
        0 => String::new(),
        n if n == parts.len() => parts.join(", "),
        n => format!("{}, \u{2026}", parts[..n].join(", ")),
    };
    let fits = |n: &usize| width(&first(*n), size, bold) <= room;
    first((0..=parts.len()).rev().find(fits).unwrap_or(0))
}

/// Breaks a text at blanks into as few lines of at most `room` as possible, of about equal length.
pub(super) fn lines(text: &str, size: f64, bold: bool, room: f64) -> Vec<String> {
    let fewest = filled(text, size, bold, room);
    let narrower = (1..20).map(|n| room * (1.0 - f64::from(n) * 0.025));
    let even = narrower.map(|room| filled(text, size, bold, room));
    even.take_while(|lines| lines.len() == fewest.len())
        .last()
        .unwrap_or(fewest)
}

/// Breaks a text at blanks into lines that are each as full as they can be.
fn filled(text: &str, size: f64, bold: bool, room: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if width(&format!("{line} {word}"), size, bold) <= room => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_grow_with_text_size_and_weight() {
        assert!(width("overflows", 20.0, false) > width("overflow", 20.0, false));
        assert!(width("overflows", 20.0, true) > width("overflows", 20.0, false));
        let twice = width("overflows", 40.0, false) / width("overflows", 20.0, false);
        assert!((twice - 2.0).abs() < 1e-6);
    }

    #[test]
    fn what_does_not_fit_is_cut_in_the_middle() {
        let name = "cases/a-long-name/backlog=128,accept-delay=80ms";
        let short = fitted(name, 20.0, false, 200.0);
        assert!(width(&short, 20.0, false) <= 200.0);
        assert!(
            short.starts_with("cases") && short.ends_with("80ms"),
            "{short}"
        );
        assert_eq!(fitted("arm-a", 20.0, false, 200.0), "arm-a");
        assert_eq!(fitted("arm-a", 20.0, false, 1.0), "");
    }

    #[test]
    fn lines_keep_every_word() {
        let text = "30 of 200 answered in arm-a, all of them in arm-b";
        let lines = lines(text, 20.0, true, 200.0);
        assert!(lines.len() > 1);
        assert_eq!(lines.join(" "), text);
    }
}
