//! `data/samples.csv`: a row for every look at a listening socket.

use std::net::SocketAddr;

use serde::Serialize;

use crate::observation::{Listener, Observation};

#[derive(Serialize)]
struct Row<'a> {
    arm: &'a str,
    trial: u32,
    listener: usize,
    address: SocketAddr,
    at_us: u64,
    recv_q: u32,
    send_q: u32,
    drops: Option<u32>,
}

pub(super) fn csv(observations: &[Observation]) -> Vec<u8> {
    let mut rows = csv::Writer::from_writer(Vec::new());
    for observation in observations {
        let listeners = observation
            .measured
            .iter()
            .flat_map(|measured| &measured.listeners);
        for (n, listener) in listeners.enumerate() {
            let samples = &listener.samples;
            for ((&at_us, &recv_q), &drops) in samples
                .at_us
                .iter()
                .zip(&samples.recv_q)
                .zip(&samples.drops)
            {
                let row = Row {
                    arm: &observation.arm,
                    trial: observation.index,
                    listener: n,
                    address: listener.address,
                    at_us,
                    recv_q,
                    send_q: limit_at(listener, at_us),
                    drops,
                };
                rows.serialize(row)
                    .expect("a row of plain values is written to memory");
            }
        }
    }
    rows.into_inner().expect("memory takes every byte")
}

/// Send-Q as the look at this time saw it.
fn limit_at(listener: &Listener, at_us: u64) -> u32 {
    let mut seen = listener.samples.send_q.iter().rev();
    let found = seen.find(|(since, _)| *since <= at_us);
    found.map_or(listener.before.send_q, |(_, limit)| *limit)
}
