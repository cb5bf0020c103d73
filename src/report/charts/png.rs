//! PNG with a palette of at most 256 colours: a chart has few, and a page loads it quickly.

use std::collections::HashMap;
use std::io::Cursor;

use super::ChartError;

type Pixel = [u8; 3];

/// Samples along each side of a pixel.
pub(super) const SIDE: u32 = 2;

/// The means of squares of four samples; `width` is that of the samples.
pub(super) fn shrunk(samples: &[u8], width: usize) -> Vec<Pixel> {
    const SAMPLE: usize = 3;
    let line = width * SAMPLE;
    let mut pixels = Vec::with_capacity(samples.len() / SAMPLE / 4);
    for lines in samples.chunks_exact(line * 2) {
        let (upper, lower) = lines.split_at(line);
        // Most of a chart is one colour: what is as the square before it needs no sums.
        let mut before = (&upper[..0], &lower[..0], [0; 3]);
        for (above, below) in upper
            .chunks_exact(SAMPLE * 2)
            .zip(lower.chunks_exact(SAMPLE * 2))
        {
            if (above, below) != (before.0, before.1) {
                let mean = [0, 1, 2].map(|n| {
                    let of =
                        |samples: &[u8]| u16::from(samples[n]) + u16::from(samples[n + SAMPLE]);
                    u8::try_from((of(above) + of(below) + 2) / 4).unwrap_or(u8::MAX)
                });
                before = (above, below, mean);
            }
            pixels.push(before.2);
        }
    }
    pixels
}

/// The file. The same pixels give the same bytes.
pub(super) fn encoded(pixels: &[Pixel], width: u32, height: u32) -> Result<Vec<u8>, ChartError> {
    let (palette, indices) = indexed(pixels);
    let mut file = Cursor::new(Vec::new());
    let mut encoder = ::png::Encoder::new(&mut file, width, height);
    encoder.set_color(::png::ColorType::Indexed);
    encoder.set_depth(::png::BitDepth::Eight);
    encoder.set_palette(palette.concat());
    encoder.set_compression(::png::Compression::Balanced);
    encoder.set_filter(::png::Filter::NoFilter);
    let encoding = |error: ::png::EncodingError| ChartError::Drawing(error.to_string());
    let mut writer = encoder.write_header().map_err(encoding)?;
    writer.write_image_data(&indices).map_err(encoding)?;
    writer.finish().map_err(encoding)?;
    Ok(file.into_inner())
}

const MOST_COLOURS: usize = 256;

/// A palette and every pixel's place in it. The most frequent colours are exact; of the others, which are
/// smoothed edges, each takes the nearest of those.
fn indexed(pixels: &[Pixel]) -> (Vec<Pixel>, Vec<u8>) {
    let mut counts: HashMap<Pixel, usize> = HashMap::new();
    for run in pixels.chunk_by(|a, b| a == b) {
        *counts.entry(run[0]).or_default() += run.len();
    }
    let mut by_count: Vec<(Pixel, usize)> = counts.into_iter().collect();
    by_count.sort_unstable_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
    let palette: Vec<Pixel> = by_count
        .iter()
        .take(MOST_COLOURS)
        .map(|(pixel, _)| *pixel)
        .collect();
    let nearest = |pixel: Pixel| {
        let distance = |other: &Pixel| -> u32 {
            pixel
                .iter()
                .zip(other)
                .map(|(a, b)| u32::from(a.abs_diff(*b)).pow(2))
                .sum()
        };
        let place = (0..palette.len())
            .min_by_key(|&n| distance(&palette[n]))
            .unwrap_or(0);
        u8::try_from(place).unwrap_or(0)
    };
    let places: HashMap<Pixel, u8> = by_count
        .iter()
        .map(|(pixel, _)| (*pixel, nearest(*pixel)))
        .collect();
    let mut indices = Vec::with_capacity(pixels.len());
    for run in pixels.chunk_by(|a, b| a == b) {
        indices.resize(indices.len() + run.len(), places[&run[0]]);
    }
    (palette, indices)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_colours_stay_exact_and_many_are_bounded() {
        let few: Vec<Pixel> = (0..1_000)
            .map(|n| [u8::try_from(n % 200).unwrap(), 7, 9])
            .collect();
        let (palette, indices) = indexed(&few);
        for (pixel, &index) in few.iter().zip(&indices) {
            assert_eq!(palette[usize::from(index)], *pixel);
        }
        let many: Vec<Pixel> = (0..=u8::MAX)
            .flat_map(|red| [[red, 0, 0], [red, 90, 9], [red, 9, 90]])
            .collect();
        assert!(indexed(&many).0.len() <= MOST_COLOURS);
    }

    #[test]
    fn a_square_becomes_its_mean() {
        let samples = [[0, 0, 0], [100, 0, 0], [0, 0, 0], [100, 8, 0]].concat();
        assert_eq!(shrunk(&samples, 2), [[50, 2, 0]]);
    }
}
