//! `data/requests.csv`: a row for every request, where connections carry several.

use serde::Serialize;

use crate::observation::Observation;

/// Times in microseconds since the clients' release; an empty field did not happen.
#[derive(Serialize)]
struct Row<'a> {
    arm: &'a str,
    trial: u32,
    attempt: u32,
    request: usize,
    intended_us: u64,
    sent_us: u64,
    first_byte_us: Option<u64>,
    answered_us: Option<u64>,
    right: bool,
}

/// The rows; `None` where there are none.
pub(super) fn csv(observations: &[Observation]) -> Option<Vec<u8>> {
    let mut rows = csv::Writer::from_writer(Vec::new());
    let mut is_empty = true;
    for observation in observations {
        let attempts = observation.measured.iter().flat_map(|one| &one.attempts);
        for attempt in attempts {
            for (n, request) in attempt.requests.iter().enumerate() {
                is_empty = false;
                let row = Row {
                    arm: &observation.arm,
                    trial: observation.index,
                    attempt: attempt.n,
                    request: n,
                    intended_us: request.intended_us,
                    sent_us: request.sent_us,
                    first_byte_us: request.first_byte_us,
                    answered_us: request.answered_us,
                    right: request.right,
                };
                rows.serialize(row)
                    .expect("a row of plain values is written to memory");
            }
        }
    }
    let rows = rows.into_inner().expect("memory takes every byte");
    (!is_empty).then_some(rows)
}
