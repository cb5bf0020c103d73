//! A figure before it is drawn: marks and texts with their places, nothing of any file format.
//!
//! Lengths are in units of which the shorter side of the canvas, seen as 16:9, has 900. So a layout is made
//! once and fits every size. Every text knows the box that it fills, so that a test can say that no two meet.

use std::fmt;
use std::str::FromStr;

use super::font;
use super::theme::{Palette, Rgb, Theme};

/// The size of a picture in pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Its width.
    pub width: u32,
    /// Its height.
    pub height: u32,
}

impl Default for Size {
    fn default() -> Self {
        Self {
            width: 1_600,
            height: 900,
        }
    }
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let sides = text
            .split_once('x')
            .and_then(|(w, h)| Some((w.parse().ok()?, h.parse().ok()?)));
        match sides {
            Some((width @ 640..=4_000, height @ 360..=4_000)) => Ok(Self { width, height }),
            _ => Err(format!(
                "\"{text}\" is not WIDTHxHEIGHT such as 1600x900, from 640x360 to 4000x4000 pixels"
            )),
        }
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.width, self.height)
    }
}

impl Size {
    /// Pixels per unit of length.
    pub(super) fn unit(self) -> f64 {
        (f64::from(self.width) / 1_600.0).min(f64::from(self.height) / 900.0)
    }
}

/// A rectangle; y grows downwards.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Area {
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) right: f64,
    pub(super) bottom: f64,
}

impl Area {
    pub(super) const fn new(left: f64, top: f64, right: f64, bottom: f64) -> Self {
        Self {
            left,
            top,
            right,
            bottom,
        }
    }

    pub(super) fn width(self) -> f64 {
        self.right - self.left
    }

    pub(super) fn height(self) -> f64 {
        self.bottom - self.top
    }

    pub(super) fn middle(self) -> f64 {
        f64::midpoint(self.top, self.bottom)
    }

    pub(super) fn overlaps(self, other: Self) -> bool {
        self.left < other.right
            && other.left < self.right
            && self.top < other.bottom
            && other.top < self.bottom
    }

    pub(super) fn holds(self, other: Self) -> bool {
        self.left <= other.left
            && other.right <= self.right
            && self.top <= other.top
            && other.bottom <= self.bottom
    }
}

/// What is drawn below the texts. All lines are horizontal or vertical; only the heads of arrows are not.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Mark {
    /// A filled rectangle.
    Box(Area, Rgb),
    /// A line along these corners, each piece horizontal or vertical.
    Steps {
        corners: Vec<(f64, f64)>,
        width: f64,
        colour: Rgb,
    },
    /// The area between an upper and a lower edge that change in steps: for each piece its left end, its
    /// upper and its lower edge; the last piece ends at `right`.
    Band {
        pieces: Vec<(f64, f64, f64)>,
        right: f64,
        colour: Rgb,
    },
    /// The head of a horizontal arrow: its tip, how far it reaches back from it to the right, and half its height.
    Head {
        tip: (f64, f64),
        back: f64,
        half: f64,
        colour: Rgb,
    },
}

/// Where a text's x is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// A line of text.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Text {
    pub(super) words: String,
    pub(super) x: f64,
    /// Its baseline.
    pub(super) y: f64,
    pub(super) size: f64,
    pub(super) bold: bool,
    pub(super) colour: Rgb,
    pub(super) anchor: Anchor,
}

impl Text {
    pub(super) fn new(text: impl Into<String>, x: f64, y: f64, size: f64, colour: Rgb) -> Self {
        Self {
            words: text.into(),
            x,
            y,
            size,
            bold: false,
            colour,
            anchor: Anchor::Start,
        }
    }

    pub(super) fn bold(self) -> Self {
        Self { bold: true, ..self }
    }

    pub(super) fn middle(self) -> Self {
        Self {
            anchor: Anchor::Middle,
            ..self
        }
    }

    pub(super) fn end(self) -> Self {
        Self {
            anchor: Anchor::End,
            ..self
        }
    }

    /// Moved so that its capitals are centred on `y`.
    pub(super) fn centred(self) -> Self {
        Self {
            y: self.y + self.size * CAPITAL / 2.0,
            ..self
        }
    }

    /// Cut in the middle to fit into `room`.
    pub(super) fn within(self, room: f64) -> Self {
        Self {
            words: font::fitted(&self.words, self.size, self.bold, room),
            ..self
        }
    }

    /// As large as it can be in `room`: a number is never cut.
    pub(super) fn shrunk(self, room: f64) -> Self {
        let size = self.size * (room / self.width().max(1.0)).min(1.0);
        Self { size, ..self }
    }

    pub(super) fn width(&self) -> f64 {
        font::width(&self.words, self.size, self.bold)
    }

    /// The box that it fills, from the top of its capitals to the foot of its descenders.
    pub(super) fn area(&self) -> Area {
        let width = self.width();
        let left = match self.anchor {
            Anchor::Start => self.x,
            Anchor::Middle => self.x - width / 2.0,
            Anchor::End => self.x - width,
        };
        Area::new(
            left,
            self.y - self.size * CAPITAL,
            left + width,
            self.y + self.size * DESCENDER,
        )
    }
}

/// Heights of the typeface over its em.
const CAPITAL: f64 = 0.73;
const DESCENDER: f64 = 0.2;

/// The length of an arrow's head.
const HEAD: f64 = 15.0;

/// A figure: its marks in the order in which they are drawn, then its texts.
#[derive(Debug, Clone)]
pub(super) struct Scene {
    pub(super) size: Size,
    pub(super) theme: Theme,
    pub(super) marks: Vec<Mark>,
    pub(super) texts: Vec<Text>,
}

impl Scene {
    pub(super) fn new(size: Size, theme: Theme) -> Self {
        Self {
            size,
            theme,
            marks: Vec::new(),
            texts: Vec::new(),
        }
    }

    pub(super) fn palette(&self) -> Palette {
        self.theme.palette()
    }

    /// The whole canvas.
    pub(super) fn canvas(&self) -> Area {
        let unit = self.size.unit();
        Area::new(
            0.0,
            0.0,
            f64::from(self.size.width) / unit,
            f64::from(self.size.height) / unit,
        )
    }

    pub(super) fn fill(&mut self, area: Area, colour: Rgb) {
        if area.width() > 0.0 && area.height() > 0.0 {
            self.marks.push(Mark::Box(area, colour));
        }
    }

    pub(super) fn steps(&mut self, corners: Vec<(f64, f64)>, width: f64, colour: Rgb) {
        self.marks.push(Mark::Steps {
            corners,
            width,
            colour,
        });
    }

    pub(super) fn horizontal(&mut self, y: f64, left: f64, right: f64, width: f64, colour: Rgb) {
        self.steps(vec![(left, y), (right, y)], width, colour);
    }

    pub(super) fn vertical(&mut self, x: f64, top: f64, bottom: f64, width: f64, colour: Rgb) {
        self.steps(vec![(x, top), (x, bottom)], width, colour);
    }

    /// A horizontal arrow from one x to another.
    pub(super) fn arrow(&mut self, y: f64, from: f64, to: f64, width: f64, colour: Rgb) {
        let back = if to > from { -HEAD } else { HEAD };
        // The shaft ends within the head, or it would blunt the tip.
        self.horizontal(y, from, to + back * 0.8, width, colour);
        self.marks.push(Mark::Head {
            tip: (to, y),
            back,
            half: HEAD * 0.5,
            colour,
        });
    }

    /// A dashed line between two points on a horizontal or a vertical.
    pub(super) fn dashes(&mut self, from: (f64, f64), to: (f64, f64), width: f64, colour: Rgb) {
        const DASH: f64 = 7.0;
        const GAP: f64 = 5.0;
        let length = (to.0 - from.0).abs().max((to.1 - from.1).abs());
        let at = |along: f64| {
            let share = if length > 0.0 {
                (along / length).min(1.0)
            } else {
                0.0
            };
            (
                from.0 + (to.0 - from.0) * share,
                from.1 + (to.1 - from.1) * share,
            )
        };
        let mut along = 0.0;
        while along < length {
            self.steps(vec![at(along), at(along + DASH)], width, colour);
            along += DASH + GAP;
        }
    }

    /// Thin horizontal lines: where nothing is known.
    pub(super) fn hatch(&mut self, area: Area, colour: Rgb) {
        const STEP: f64 = 7.0;
        let mut y = area.bottom - STEP / 2.0;
        while y > area.top {
            self.horizontal(y, area.left, area.right, 1.0, colour);
            y -= STEP;
        }
    }

    /// Places a text. The layout answers for its place.
    pub(super) fn text(&mut self, text: Text) {
        if !text.words.is_empty() {
            self.texts.push(text);
        }
    }

    /// Places a text if it lies within `bounds` and meets no other.
    pub(super) fn text_if_free(&mut self, text: Text, bounds: Area) -> bool {
        let area = text.area();
        let free =
            bounds.holds(area) && !self.texts.iter().any(|other| other.area().overlaps(area));
        if free {
            self.text(text);
        }
        free
    }
}

#[cfg(test)]
impl Scene {
    /// Panics when a text leaves the canvas or meets another.
    pub(super) fn assert_tidy(&self, what: &str) {
        let canvas = self.canvas();
        let areas: Vec<Area> = self.texts.iter().map(Text::area).collect();
        for (n, (text, area)) in self.texts.iter().zip(&areas).enumerate() {
            assert!(
                canvas.holds(*area),
                "{what}: {:?} leaves the canvas: {area:?}",
                text.words,
            );
            for (other, there) in self.texts[..n].iter().zip(&areas) {
                assert!(
                    !area.overlaps(*there),
                    "{what}: {:?} at {area:?} meets {:?} at {there:?}",
                    text.words,
                    other.words,
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_printed_alike() {
        for text in ["1600x900", "640x360", "4000x4000"] {
            assert_eq!(text.parse::<Size>().unwrap().to_string(), text);
        }
        for text in [
            "1600",
            "1600x",
            "x900",
            "100x100",
            "9000x900",
            "-1x-1",
            "1600x900x2",
        ] {
            assert!(
                text.parse::<Size>().unwrap_err().contains("1600x900"),
                "{text}"
            );
        }
    }

    #[test]
    fn a_text_is_only_placed_where_it_is_free() {
        let mut scene = Scene::new(Size::default(), Theme::Light);
        let ink = scene.palette().ink;
        let canvas = scene.canvas();
        assert!(scene.text_if_free(Text::new("overflows", 100.0, 100.0, 20.0, ink), canvas));
        assert!(!scene.text_if_free(Text::new("drops", 120.0, 105.0, 20.0, ink), canvas));
        assert!(!scene.text_if_free(Text::new("drops", 1_590.0, 300.0, 20.0, ink), canvas));
        assert!(scene.text_if_free(Text::new("drops", 1_590.0, 300.0, 20.0, ink).end(), canvas));
        scene.assert_tidy("two texts");
    }
}
