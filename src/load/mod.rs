//! The two ends of an experiment: the slow-accept server and the flood client, both of plain threads; for very many
//! connections the client is driven by events.

mod acceptors;
mod attempt;
mod caller;
mod clock;
mod conversation;
mod descriptors;
mod events;
mod flood;
mod http;
mod interrupt;
mod log;
mod pace;
mod schedule;
mod series;
mod server;
mod target;
mod unix;

pub use clock::Clock;
pub use flood::{Flood, FloodError, Harvest};
pub use interrupt::Interrupt;
pub use log::ServerLog;
pub use schedule::Schedule;
pub use series::Series;
pub use server::{Server, ServerError};
pub use target::{Progress, Target};
