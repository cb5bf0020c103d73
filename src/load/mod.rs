//! The two ends of an experiment: the slow-accept server and the flood client, of plain threads or, for very many connections, of events.

mod attempt;
mod clock;
mod events;
mod flood;
mod interrupt;
mod pace;
mod schedule;
mod server;
mod target;

pub use clock::Clock;
pub use flood::{Flood, FloodError, Harvest};
pub use interrupt::Interrupt;
pub use schedule::Schedule;
pub use server::{Server, ServerError, ServerLog};
pub use target::{Progress, Target};
