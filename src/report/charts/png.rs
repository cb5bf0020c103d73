//! PNG with a palette of at most 256 colours: a chart has few, and a page loads it quickly.

use std::collections::HashMap;
use std::io::Cursor;

use super::ChartError;

type Pixel = [u8; 3];

/// The means of squares of `side` by `side` samples.
pub(super) fn shrunk(samples: &[u8], width: usize, side: usize) -> Vec<Pixel> {
    let area = side * side;
    let mut pixels = Vec::with_capacity(samples.len() / 3 / area);
    for rows in samples.chunks_exact(width * 3 * side) {
        for x in (0..width).step_by(side) {
            let mut sums = [area / 2; 3];
            for row in rows.chunks_exact(width * 3) {
                for sample in row[x * 3..(x + side) * 3].chunks_exact(3) {
                    for (sum, &byte) in sums.iter_mut().zip(sample) {
                        *sum += usize::from(byte);
                    }
                }
            }
            pixels.push(sums.map(|sum| u8::try_from(sum / area).unwrap_or(u8::MAX)));
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
        assert_eq!(shrunk(&samples, 2, 2), [[50, 2, 0]]);
    }
}
