//! Colours. Every outcome has one of its own, the same in every chart and in both themes.

use clap::ValueEnum;

use crate::report::composition::Lot;
use crate::result::{Cause, Outcome};

/// A colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Rgb(pub(super) u8, pub(super) u8, pub(super) u8);

impl Rgb {
    /// This colour with `share` of another in it; opaque, so that a picture needs few colours.
    pub(super) fn mixed(self, other: Self, share: f64) -> Self {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "between two bytes"
        )]
        let mix =
            |a: u8, b: u8| (f64::from(a) * (1.0 - share) + f64::from(b) * share).round() as u8;
        Self(
            mix(self.0, other.0),
            mix(self.1, other.1),
            mix(self.2, other.2),
        )
    }

    /// The lightness that the eye sees, from 0 to 1 (the luminance of WCAG 2).
    pub(super) fn luminance(self) -> f64 {
        let linear = |byte: u8| {
            let c = f64::from(byte) / 255.0;
            if c <= 0.040_45 {
                c / 12.92
            } else {
                ((c + 0.055) / 1.055).powf(2.4)
            }
        };
        0.2126 * linear(self.0) + 0.7152 * linear(self.1) + 0.0722 * linear(self.2)
    }

    /// Black or white, whichever is easier to read on this colour.
    pub(super) fn text_on(self) -> Self {
        if self.luminance() > 0.25 {
            Self(0x11, 0x15, 0x1a)
        } else {
            Self(0xff, 0xff, 0xff)
        }
    }
}

/// Light or dark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Theme {
    /// Dark ink on white.
    #[default]
    Light,
    /// Light ink on a dark ground.
    Dark,
}

/// What is neither an outcome nor a number: ground, ink, and the queue.
#[derive(Debug, Clone, Copy)]
pub(super) struct Palette {
    pub(super) paper: Rgb,
    pub(super) ink: Rgb,
    pub(super) muted: Rgb,
    pub(super) grid: Rgb,
    pub(super) queue: Rgb,
    pub(super) queue_fill: Rgb,
}

impl Theme {
    pub(super) const fn palette(self) -> Palette {
        match self {
            Self::Light => Palette {
                paper: Rgb(0xff, 0xff, 0xff),
                ink: Rgb(0x16, 0x1b, 0x22),
                muted: Rgb(0x57, 0x60, 0x6c),
                grid: Rgb(0xe3, 0xe7, 0xec),
                queue: Rgb(0x47, 0x55, 0x69),
                queue_fill: Rgb(0xcd, 0xd5, 0xe0),
            },
            Self::Dark => Palette {
                paper: Rgb(0x12, 0x17, 0x1e),
                ink: Rgb(0xee, 0xf1, 0xf5),
                muted: Rgb(0xa3, 0xae, 0xbc),
                grid: Rgb(0x2a, 0x32, 0x3d),
                queue: Rgb(0xb4, 0xc0, 0xd0),
                queue_fill: Rgb(0x3d, 0x49, 0x5a),
            },
        }
    }

    /// The colour of the `n`-th arm in a picture of lines: none of these is an outcome's.
    pub(super) const fn series(self, n: usize) -> Rgb {
        let colours = match self {
            Self::Light => [
                Rgb(0xb2, 0x18, 0x2b),
                Rgb(0x1f, 0x5f, 0xbf),
                Rgb(0x5a, 0x8f, 0x00),
                Rgb(0x5e, 0x1a, 0x6e),
                Rgb(0x8c, 0x6d, 0x1f),
                Rgb(0x50, 0x50, 0x50),
            ],
            Self::Dark => [
                Rgb(0xf2, 0x8e, 0x2b),
                Rgb(0x55, 0x99, 0xee),
                Rgb(0x44, 0xbb, 0x99),
                Rgb(0xff, 0xd1, 0xec),
                Rgb(0xee, 0xdd, 0x88),
                Rgb(0xdd, 0xdd, 0xdd),
            ],
        };
        colours[n % colours.len()]
    }

    /// An outcome's colour: the palette of Okabe and Ito (2008) for colour-blind readers and a grey; the
    /// palette's black is the theme's ink.
    pub(super) const fn outcome(self, outcome: Outcome) -> Rgb {
        match outcome {
            Outcome::Ok => Rgb(0x00, 0x72, 0xb2),
            Outcome::ConnectTimeout => Rgb(0xd5, 0x5e, 0x00),
            Outcome::ReadTimeout => Rgb(0xe6, 0x9f, 0x00),
            Outcome::Refused => Rgb(0xcc, 0x79, 0xa7),
            Outcome::Reset => Rgb(0xf0, 0xe4, 0x42),
            Outcome::ClosedEarly => Rgb(0x56, 0xb4, 0xe9),
            Outcome::WrongData => Rgb(0x00, 0x9e, 0x73),
            Outcome::LocalLimit => Rgb(0x8c, 0x8c, 0x8c),
            Outcome::Other => self.palette().ink,
        }
    }
}

/// A class of clients that has a colour of its own.
pub(super) trait Coloured {
    /// The same in every chart.
    fn colour(self, theme: Theme) -> Rgb;
}

impl Coloured for Outcome {
    fn colour(self, theme: Theme) -> Rgb {
        theme.outcome(self)
    }
}

impl Coloured for Lot {
    /// What is an outcome of its own has the outcome's colour; of several causes of one outcome the most frequent
    /// has. The others differ from all in lightness, so that they do for colour-blind readers.
    fn colour(self, theme: Theme) -> Rgb {
        let Self::Lost(cause) = self else {
            return theme.outcome(Outcome::Ok);
        };
        match cause {
            Cause::SynDroppedAcceptQueueFull => theme.outcome(Outcome::ConnectTimeout),
            Cause::SynDroppedSynQueueFull => Rgb(0xf4, 0xb8, 0x93),
            Cause::UnixQueueFull => Rgb(0x4a, 0x1f, 0x10),
            Cause::CookieAckDropped => theme.outcome(Outcome::ReadTimeout),
            Cause::FinalAckDropped => Rgb(0x6e, 0x4a, 0x0a),
            Cause::ResetByAbortOnOverflow => theme.outcome(Outcome::Reset),
            Cause::WaitedInAcceptQueue => Rgb(0x9a, 0xd9, 0xc7),
            Cause::ListenerClosed => Rgb(0x86, 0x80, 0x1c),
            Cause::NoListener => theme.outcome(Outcome::Refused),
            Cause::NotAnswered => Rgb(0x3f, 0x2f, 0x66),
            Cause::ServerClosedEarly => theme.outcome(Outcome::ClosedEarly),
            Cause::WrongAnswer => theme.outcome(Outcome::WrongData),
            Cause::LostOnTheWire => Rgb(0x5d, 0x6a, 0x7c),
            Cause::SourceNotLocal => Rgb(0xdc, 0xdc, 0xe6),
            Cause::ClientOutOfPorts => theme.outcome(Outcome::LocalLimit),
            Cause::ClientOutOfDescriptors => Rgb(0xc4, 0xc4, 0xc4),
            Cause::Unexplained => theme.outcome(Outcome::Other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_outcomes_share_a_colour() {
        for theme in [Theme::Light, Theme::Dark] {
            let mut colours: Vec<Rgb> = Outcome::ALL.map(|one| theme.outcome(one)).to_vec();
            colours.push(theme.palette().paper);
            let n = colours.len();
            colours.sort_unstable();
            colours.dedup();
            assert_eq!(colours.len(), n, "{theme:?}");
        }
    }

    #[test]
    fn no_two_lots_share_a_colour() {
        for theme in [Theme::Light, Theme::Dark] {
            let mut colours: Vec<Rgb> = Lot::all().map(|one| one.colour(theme)).collect();
            colours.push(theme.palette().paper);
            let n = colours.len();
            colours.sort_unstable();
            colours.dedup();
            assert_eq!(colours.len(), n, "{theme:?}");
        }
    }

    /// As the eye without red, and without green, receptors sees it: lightness, and blue against yellow
    /// (Viénot, Brettel and Mollon 1999, in linear light).
    fn seen(colour: Rgb, [red, green]: [f64; 2]) -> [f64; 2] {
        let linear = |byte: u8| (f64::from(byte) / 255.0).powf(2.2);
        let yellow = red * linear(colour.0) + green * linear(colour.1);
        let lightness = |y: f64| y.cbrt() * 100.0;
        [lightness(yellow), lightness(linear(colour.2))]
    }

    /// The first four, in a picture of lines; more are told apart by their names.
    #[test]
    fn colour_blind_readers_tell_few_arms_apart() {
        for theme in [Theme::Light, Theme::Dark] {
            for weights in [[0.112, 0.888], [0.293, 0.707]] {
                for (n, other) in (0..4).flat_map(|n| (0..n).map(move |other| (n, other))) {
                    let [a, b] = [n, other].map(|n| seen(theme.series(n), weights));
                    let distance = (a[0] - b[0]).hypot(a[1] - b[1]);
                    assert!(distance > 12.0, "{theme:?} {n} and {other}: {distance}");
                }
            }
        }
    }

    /// Those that stand beside each other in the bars of a full queue.
    #[test]
    fn colour_blind_readers_tell_the_common_lots_apart() {
        let common = [
            Lot::Well,
            Lot::Lost(Cause::SynDroppedAcceptQueueFull),
            Lot::Lost(Cause::SynDroppedSynQueueFull),
            Lot::Lost(Cause::CookieAckDropped),
            Lot::Lost(Cause::FinalAckDropped),
            Lot::Lost(Cause::ResetByAbortOnOverflow),
            Lot::Lost(Cause::WaitedInAcceptQueue),
        ];
        for weights in [[0.112, 0.888], [0.293, 0.707]] {
            for (n, one) in common.iter().enumerate() {
                for other in &common[..n] {
                    let [a, b] = [one, other].map(|lot| seen(lot.colour(Theme::Light), weights));
                    let distance = (a[0] - b[0]).hypot(a[1] - b[1]);
                    assert!(distance > 12.0, "{one} and {other}: {distance}");
                }
            }
        }
    }

    #[test]
    fn text_stands_out_from_what_it_is_written_on() {
        let contrast = |a: Rgb, b: Rgb| {
            let (a, b) = (a.luminance() + 0.05, b.luminance() + 0.05);
            a.max(b) / a.min(b)
        };
        for theme in [Theme::Light, Theme::Dark] {
            let Palette {
                paper, ink, muted, ..
            } = theme.palette();
            assert!(
                contrast(paper, ink) > 12.0 && contrast(paper, muted) > 4.5,
                "{theme:?}"
            );
            let outcomes = Outcome::ALL.map(|one| one.colour(theme));
            let lots = Lot::all().map(|one| one.colour(theme));
            for colour in outcomes.into_iter().chain(lots) {
                // Numbers on bars are bold and large: WCAG 2 asks for 3.
                assert!(
                    contrast(colour, colour.text_on()) > 3.5,
                    "{theme:?} {colour:?}"
                );
            }
        }
    }
}
