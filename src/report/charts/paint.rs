//! A scene as SVG and as PNG, through the backends of plotters.

use plotters::backend::{BitMapBackend, DrawingBackend, SVGBackend};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{
    Color as _, FontFamily, FontStyle, FontTransform, IntoFont, RGBColor, TextStyle,
};

use super::font;
use super::scene::{Anchor, Mark, Scene, Text};
use super::theme::Rgb;
use super::{ChartError, png};

/// The scene as an SVG document. Texts stay texts.
pub(super) fn svg(scene: &Scene) -> Result<Vec<u8>, ChartError> {
    font::register().map_err(ChartError::Font)?;
    let mut document = String::new();
    let size = (scene.size.width, scene.size.height);
    let mut painter = Painter {
        backend: SVGBackend::with_string(&mut document, size),
        scale: scene.size.unit(),
        // The backend divides by 1.24 to get the em, and puts the baseline 0.76 em below the top.
        type_size: 1.24,
        baseline: 0.76,
        outlines: true,
    };
    painter.paint(scene)?;
    drop(painter);
    Ok(document.into_bytes())
}

/// The scene as a PNG with a palette, drawn larger and shrunk: that smooths edges and glyphs.
pub(super) fn png(scene: &Scene) -> Result<Vec<u8>, ChartError> {
    font::register().map_err(ChartError::Font)?;
    let (width, height) = (scene.size.width * png::SIDE, scene.size.height * png::SIDE);
    let mut samples = vec![0_u8; width as usize * height as usize * 3];
    let mut painter = Painter {
        backend: BitMapBackend::with_buffer(&mut samples, (width, height)),
        scale: scene.size.unit() * f64::from(png::SIDE),
        // The backend takes the line height, and puts the baseline half of it below the top.
        type_size: f64::from(font::line_height()),
        baseline: f64::from(font::line_height()) / 2.0,
        outlines: false,
    };
    painter.paint(scene)?;
    drop(painter);
    let pixels = png::shrunk(&samples, width as usize);
    png::encoded(&pixels, scene.size.width, scene.size.height)
}

struct Painter<B> {
    backend: B,
    /// The backend's pixels per unit of length.
    scale: f64,
    /// The backend's font size over the em.
    type_size: f64,
    /// The baseline below the top that the backend is given, over the em.
    baseline: f64,
    /// Whether lines and bands are drawn as one shape each; else as rectangles, which is exact and quick.
    outlines: bool,
}

impl<B: DrawingBackend> Painter<B> {
    fn paint(&mut self, scene: &Scene) -> Result<(), ChartError> {
        let (width, height) = self.backend.get_size();
        let size = (
            i32::try_from(width).unwrap_or(i32::MAX),
            i32::try_from(height).unwrap_or(i32::MAX),
        );
        self.rectangle((0, 0), size, scene.palette().paper)?;
        for mark in &scene.marks {
            match mark {
                Mark::Box(area, colour) => {
                    let from = self.point((area.left, area.top));
                    let (right, bottom) = self.point((area.right, area.bottom));
                    // A thing that is there is seen.
                    self.rectangle(
                        from,
                        (right.max(from.0 + 1), bottom.max(from.1 + 1)),
                        *colour,
                    )?;
                }
                Mark::Steps {
                    corners,
                    width,
                    colour,
                } => self.steps(corners, *width, *colour)?,
                Mark::Band {
                    pieces,
                    right,
                    colour,
                } => self.band(pieces, *right, *colour)?,
                Mark::Head {
                    tip,
                    back,
                    half,
                    colour,
                } => {
                    let corner = |y| self.point((tip.0 + back, tip.1 + y));
                    let corners = [self.point(*tip), corner(-half), corner(*half)];
                    self.backend
                        .fill_polygon(corners, &rgb(*colour))
                        .map_err(drawing)?;
                }
            }
        }
        scene.texts.iter().try_for_each(|text| self.text(text))?;
        self.backend.present().map_err(drawing)
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "a canvas has far fewer than 2^31 pixels"
    )]
    fn length(&self, units: f64) -> i32 {
        (units * self.scale).round() as i32
    }

    fn point(&self, (x, y): (f64, f64)) -> (i32, i32) {
        (self.length(x), self.length(y))
    }

    /// The rectangle up to, and without, its lower right corner.
    fn rectangle(
        &mut self,
        from: (i32, i32),
        to: (i32, i32),
        colour: Rgb,
    ) -> Result<(), ChartError> {
        if to.0 <= from.0 || to.1 <= from.1 {
            return Ok(());
        }
        self.backend
            .draw_rect(from, to, &rgb(colour), true)
            .map_err(drawing)
    }

    fn steps(&mut self, corners: &[(f64, f64)], width: f64, colour: Rgb) -> Result<(), ChartError> {
        let width = self.length(width).max(1);
        if self.outlines {
            let path: Vec<(i32, i32)> = corners.iter().map(|&corner| self.point(corner)).collect();
            let style = rgb(colour).stroke_width(width.unsigned_abs());
            return self.backend.draw_path(path, &style).map_err(drawing);
        }
        let (before, after) = (width / 2, width - width / 2);
        for pair in corners.windows(2) {
            let (a, b) = (self.point(pair[0]), self.point(pair[1]));
            let from = (a.0.min(b.0) - before, a.1.min(b.1) - before);
            let to = (a.0.max(b.0) + after, a.1.max(b.1) + after);
            self.rectangle(from, to, colour)?;
        }
        Ok(())
    }

    fn band(
        &mut self,
        pieces: &[(f64, f64, f64)],
        right: f64,
        colour: Rgb,
    ) -> Result<(), ChartError> {
        let ends = pieces.iter().skip(1).map(|piece| piece.0).chain([right]);
        let spans: Vec<_> = pieces.iter().zip(ends).collect();
        if !self.outlines {
            for (&(left, upper, lower), end) in spans {
                let (from, to) = (self.point((left, upper)), self.point((end, lower)));
                self.rectangle(from, to, colour)?;
            }
            return Ok(());
        }
        let upper = spans
            .iter()
            .flat_map(|(piece, end)| [(piece.0, piece.1), (*end, piece.1)]);
        let lower = spans
            .iter()
            .rev()
            .flat_map(|(piece, end)| [(*end, piece.2), (piece.0, piece.2)]);
        let outline: Vec<(i32, i32)> = upper
            .chain(lower)
            .map(|corner| self.point(corner))
            .collect();
        self.backend
            .fill_polygon(outline, &rgb(colour))
            .map_err(drawing)
    }

    fn text(&mut self, text: &Text) -> Result<(), ChartError> {
        let em = text.size * self.scale;
        let style = if text.bold {
            FontStyle::Bold
        } else {
            FontStyle::Normal
        };
        let font = (FontFamily::Name(font::FAMILY), em * self.type_size, style).into_font();
        let anchor = match text.anchor {
            Anchor::Start => HPos::Left,
            Anchor::Middle => HPos::Center,
            Anchor::End => HPos::Right,
        };
        let colour = rgb(text.colour);
        let style = TextStyle::from(font.transform(FontTransform::None))
            .color(&colour)
            .pos(Pos::new(anchor, VPos::Top));
        let (x, top) = self.point((text.x, text.y - text.size * self.baseline));
        self.backend
            .draw_text(&text.words, &style, (x, top))
            .map_err(drawing)
    }
}

const fn rgb(colour: Rgb) -> RGBColor {
    RGBColor(colour.0, colour.1, colour.2)
}

fn drawing(error: impl std::error::Error) -> ChartError {
    ChartError::Drawing(error.to_string())
}
