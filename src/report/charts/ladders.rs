//! `ladder-*`: one client of each fate, event by event. The same `Ladder` that the terminal shows, as a figure.

use super::frame::{self, BODY, SMALL};
use super::scale;
use super::scene::{Area, Scene, Text};
use super::story::Story;
use super::{ChartId, Figure, Options};
use crate::arm::{End, Flags};
use crate::observation::Observation;
use crate::report::ladder::{
    self, Event, LEGEND, Ladder, Ladders, Moment, Rung, Sent, Story as StoryOfOne, examples,
};
use crate::result::{Outcome, Results, Status, capital};

/// An example of every fate that valid trials with packets have. Without packets there is too little to show.
pub(super) fn charts(
    story: &Story<'_>,
    results: &Results,
    observations: &[Observation],
    options: Options,
) -> Vec<Figure> {
    let has_packets =
        |one: &&Observation| one.measured.as_ref().is_some_and(|one| one.wire.is_some());
    let is_valid = |one: &&Observation| {
        let arm = results.arms.iter().find(|arm| arm.name == one.arm);
        let mut trials = arm.into_iter().flat_map(|arm| &arm.trials);
        trials.any(|trial| trial.index == one.index && trial.status == Status::Ok)
    };
    let trials: Vec<Ladders<'_>> = observations
        .iter()
        .filter(has_packets)
        .filter(is_valid)
        .filter_map(Ladders::of)
        .collect();
    examples(&trials)
        .into_iter()
        .map(|(place, n)| chart(story, &trials[place].ladder(n), options))
        .collect()
}

fn chart(story: &Story<'_>, ladder: &Ladder, options: Options) -> Figure {
    let title = title(ladder);
    let mut subtitle = format!(
        "{} \u{b7} trial {}, connection {}",
        ladder.arm, ladder.trial, ladder.connection
    );
    if let Some(cause) = ladder.cause {
        subtitle += &format!(" \u{b7} cause: {cause}");
    }
    let (mut scene, content) = frame::frame(
        &story.setting,
        &title,
        &subtitle,
        options.size,
        options.theme,
    );
    Drawing::new(&mut scene, content).draw(ladder);
    Figure {
        id: ChartId::Ladder(ladder.story),
        alt: alt(ladder),
        title,
        scene,
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "times of a trial are far below 2^53 microseconds"
)]
fn time(us: u64) -> String {
    scale::time(us as f64 / 1_000.0)
}

/// What became of the client, with its own numbers.
fn title(ladder: &Ladder) -> String {
    let ended = time(ladder.ended_us);
    let connected = ladder.connected_us.map_or("never".to_owned(), time);
    let syns = ladder
        .rungs
        .iter()
        .filter(|rung| is_syn(&rung.event))
        .count();
    let syns = match syns {
        1 => "1 SYN".to_owned(),
        n => format!("{n} SYNs"),
    };
    match ladder.story {
        StoryOfOne::AnsweredAtOnce => format!("Answered at once: done after {ended}"),
        StoryOfOne::AnsweredAfterRetry => {
            format!("Answered after a SYN retry: {syns}, connected after {connected}")
        }
        StoryOfOne::RescuedGhost => {
            format!("Rescued ghost: connected after {connected}, done after {ended}")
        }
        StoryOfOne::ConnectTimeout => {
            format!("Connect timeout: {syns}, and no connection in {ended}")
        }
        StoryOfOne::GhostByCookie => {
            format!("Ghost by cookie: connected after {connected}, and unknown to the server")
        }
        StoryOfOne::GhostByDroppedAck => {
            format!("Ghost by dropped ACK: connected after {connected}, and never so at the server")
        }
        StoryOfOne::Reset => match ladder.connected_us {
            Some(us) => format!(
                "Reset {} after it was connected",
                time(ladder.ended_us.saturating_sub(us))
            ),
            None => format!("Reset after {ended}, before it was connected"),
        },
        StoryOfOne::Refused => format!("Refused after {ended}: nobody listens there"),
        StoryOfOne::Other(cause) => {
            format!("{}: ended after {ended}", capital(cause.label()))
        }
    }
}

fn is_syn(event: &Event) -> bool {
    matches!(event, Event::Packet(packet) if packet.to == End::Server && packet.flags.is(Flags::SYN))
}

/// Every event in words.
fn alt(ladder: &Ladder) -> String {
    let told = ladder.rungs.iter().map(|rung| match &rung.event {
        Event::At(Moment { end, at_us, label }) => {
            let end = match end {
                End::Client => "client",
                End::Server => "server",
            };
            format!("{} ms {end}: {label}", ladder::ms(*at_us))
        }
        Event::Packet(packet) => {
            let to = match packet.to {
                End::Client => "to the client",
                End::Server => "to the server",
            };
            let lot = match packet.lot() {
                "" => String::new(),
                lot => format!(", {lot}"),
            };
            format!(
                "{} ms {} {to}{lot}",
                ladder::ms(packet.sent_us),
                packet.label
            )
        }
    });
    format!(
        "Ladder of one client. {}",
        told.collect::<Vec<_>>().join("; ")
    )
}

/// A line of the figure.
enum Line<'a> {
    Rung(&'a Rung),
    /// Nothing happened for so long, in microseconds.
    Gap(u64),
    /// So many events have no room.
    LeftOut(usize),
}

/// From this on a silence is shown as one.
const SILENCE_US: u64 = 100_000;
/// A figure has room for so many events, of a longer ladder for its beginning and its end.
const MOST_EVENTS: usize = 16;
const END_EVENTS: usize = 5;

fn lines(ladder: &Ladder) -> Vec<Line<'_>> {
    let n = ladder.rungs.len();
    // To say that one is left out takes as much room as to show it.
    let hidden = if n > MOST_EVENTS + 1 {
        n - MOST_EVENTS
    } else {
        0
    };
    let kept = if hidden > 0 {
        MOST_EVENTS - END_EVENTS
    } else {
        n
    };
    let mut lines = Vec::new();
    let mut last_us: Option<u64> = None;
    for (n, rung) in ladder.rungs.iter().enumerate() {
        let begins_us = rung.event.begins_us();
        let silence_us = last_us.map_or(0, |last_us| begins_us.saturating_sub(last_us));
        let ends_us = match &rung.event {
            Event::Packet(packet) => packet.arrived_us.unwrap_or(begins_us),
            Event::At(_) => begins_us,
        };
        last_us = Some(last_us.unwrap_or(0).max(ends_us));
        if hidden > 0 && n == kept {
            lines.push(Line::LeftOut(hidden));
        }
        if (kept..kept + hidden).contains(&n) {
            continue;
        }
        if silence_us >= SILENCE_US && (hidden == 0 || n != kept + hidden) {
            lines.push(Line::Gap(silence_us));
        }
        lines.push(Line::Rung(rung));
    }
    lines
}

struct Drawing<'a> {
    scene: &'a mut Scene,
    content: Area,
    client: f64,
    server: f64,
    queue: f64,
}

impl<'a> Drawing<'a> {
    fn new(scene: &'a mut Scene, content: Area) -> Self {
        let queue = content.right - 300.0;
        Self {
            scene,
            content,
            client: content.left + 128.0,
            server: queue - 170.0,
            queue,
        }
    }

    fn draw(&mut self, ladder: &Ladder) {
        const HEADS: f64 = 44.0;
        const NOTE: f64 = 40.0;
        const GAP: f64 = 0.75;
        let lines = lines(ladder);
        let weight = |line: &Line<'_>| match line {
            Line::Rung(_) => 1.0,
            Line::Gap(_) | Line::LeftOut(_) => GAP,
        };
        let room = self.content.height() - HEADS - NOTE;
        let all: f64 = lines.iter().map(weight).sum();
        let height = (room / all.max(1.0)).min(54.0);
        let has_queue = ladder.rungs.iter().any(|rung| rung.queue.is_some());
        self.heads(has_queue);
        let mut top = self.content.top + HEADS;
        for line in &lines {
            let bottom = top + height * weight(line);
            let row = Area {
                top,
                bottom,
                ..self.content
            };
            match line {
                Line::Rung(rung) => {
                    self.lifelines(row, false);
                    self.rung(rung, row);
                }
                Line::Gap(us) => self.silence(&format!("{} later", time(*us)), row),
                Line::LeftOut(n) => self.silence(&format!("{n} more events"), row),
            }
            top = bottom;
        }
        if has_queue {
            let muted = self.scene.palette().muted;
            let note = Text::new(LEGEND, self.content.left, top + NOTE - 8.0, 17.0, muted);
            self.scene.text(note.within(self.content.width()));
        }
    }

    fn heads(&mut self, has_queue: bool) {
        let palette = self.scene.palette();
        let y = self.content.top + 12.0;
        let ends = [(self.client, "client"), (self.server, "server")];
        for (x, name) in ends {
            let head = Text::new(name, x, y, BODY, palette.ink);
            self.scene.text(head.bold().middle().centred());
        }
        let small = |words, x| Text::new(words, x, y, SMALL, palette.muted).centred();
        self.scene.text(small("ms", self.client - 50.0).end());
        self.scene.text(small("ms", self.server + 50.0));
        if has_queue {
            self.scene.text(small("accept queue", self.queue));
        }
    }

    fn lifelines(&mut self, row: Area, is_silent: bool) {
        let colour = self.scene.palette().muted;
        for x in [self.client, self.server] {
            if is_silent {
                self.scene
                    .dashes((x, row.top), (x, row.bottom), 2.0, colour);
            } else {
                self.scene.vertical(x, row.top, row.bottom, 2.0, colour);
            }
        }
    }

    fn silence(&mut self, words: &str, row: Area) {
        self.lifelines(row, true);
        let middle = f64::midpoint(self.client, self.server);
        let size = SMALL.min(row.height() * 0.8);
        let muted = self.scene.palette().muted;
        let text = Text::new(words, middle, row.middle(), size, muted);
        self.scene.text(text.middle().centred());
    }

    fn rung(&mut self, rung: &Rung, row: Area) {
        let size = BODY.min(row.height() * 0.72);
        match &rung.event {
            Event::At(Moment { end, at_us, label }) => {
                self.at(*end, label, row, size);
                self.times(*end, *at_us, None, row, size);
            }
            Event::Packet(packet) => {
                self.packet(packet, row, size);
                self.times(
                    packet.to.other(),
                    packet.sent_us,
                    packet.arrived_us,
                    row,
                    size,
                );
            }
        }
        if let Some((length, capacity)) = rung.queue {
            self.queue(length, capacity, row, size);
        }
    }

    /// The times at an end and at the other one.
    fn times(&mut self, end: End, here_us: u64, there_us: Option<u64>, row: Area, size: f64) {
        let (client_us, server_us) = match end {
            End::Client => (Some(here_us), there_us),
            End::Server => (there_us, Some(here_us)),
        };
        let ink = self.scene.palette().ink;
        let text = |us: u64, x: f64| Text::new(ladder::ms(us), x, row.middle(), size, ink);
        if let Some(us) = client_us {
            let text = text(us, self.client - 18.0).end().centred();
            self.scene
                .text(text.shrunk(self.client - 18.0 - self.content.left));
        }
        if let Some(us) = server_us {
            let text = text(us, self.server + 18.0).centred();
            self.scene
                .text(text.shrunk(self.queue - self.server - 36.0));
        }
    }

    /// Something that happened at one end: a mark on its line, and words.
    fn at(&mut self, end: End, label: &str, row: Area, size: f64) {
        const MARK: f64 = 6.0;
        let palette = self.scene.palette();
        let x = match end {
            End::Client => self.client,
            End::Server => self.server,
        };
        let y = row.middle();
        let mark = Area::new(x - MARK, y - MARK, x + MARK, y + MARK);
        self.scene.fill(mark, palette.ink);
        let text = |x| Text::new(label, x, y, size, palette.ink).bold().centred();
        self.scene.text(match end {
            End::Client => text(x + 18.0),
            End::Server => text(x - 18.0).end(),
        });
    }

    /// A packet: its words beside its sender, and an arrow as far as it came.
    fn packet(&mut self, packet: &Sent, row: Area, size: f64) {
        const GAP: f64 = 12.0;
        let palette = self.scene.palette();
        let y = row.middle();
        let (to, lot) = (packet.to, packet.lot());
        let arrived = packet.arrived_us.is_some();
        let label = if arrived && !lot.is_empty() {
            format!("{}, {lot}", packet.label)
        } else {
            packet.label.clone()
        };
        let (from, until, ahead) = match to {
            End::Server => (self.client, self.server, 1.0),
            End::Client => (self.server, self.client, -1.0),
        };
        let beside = |words: String, x: f64, colour| {
            let text = Text::new(words, x, y, size, colour).centred();
            if to == End::Server { text } else { text.end() }
        };
        let words = beside(label, from + ahead * 18.0, palette.ink);
        let tail = from + ahead * (18.0 + words.width() + GAP);
        self.scene.text(words);
        if arrived {
            self.scene
                .arrow(y, tail, until - ahead * 3.0, 2.5, palette.queue);
            return;
        }
        // What the wire kept ends in the colour of clients that cannot connect.
        let colour = self.scene.theme.outcome(Outcome::ConnectTimeout);
        let middle = f64::midpoint(self.client, self.server);
        let stop = match to {
            End::Server => middle.max(tail),
            End::Client => middle.min(tail),
        };
        self.scene.horizontal(y, tail, stop, 2.5, palette.queue);
        let lost = beside(format!("\u{d7} {lot}"), stop + ahead * GAP, colour);
        self.scene.text(lost.bold());
    }

    /// How full the accept queue was.
    fn queue(&mut self, length: u32, capacity: u32, row: Area, size: f64) {
        const WIDTH: f64 = 120.0;
        let palette = self.scene.palette();
        let half = (row.height() * 0.22).min(10.0);
        let gauge = Area::new(
            self.queue,
            row.middle() - half,
            self.queue + WIDTH,
            row.middle() + half,
        );
        self.scene.fill(gauge, palette.queue_fill);
        let share = (f64::from(length) / f64::from(capacity.max(1))).min(1.0);
        let filled = Area {
            right: gauge.left + WIDTH * share,
            ..gauge
        };
        self.scene.fill(filled, palette.queue);
        let is_full = length >= capacity;
        let full = if is_full { ", full" } else { "" };
        let words = format!("{length} of {capacity}{full}");
        let x = gauge.right + 14.0;
        let text = Text::new(words, x, row.middle(), size, palette.ink);
        let text = if is_full { text.bold() } else { text };
        self.scene
            .text(text.centred().shrunk(self.content.right - x));
    }
}
