//! The two ends of an experiment: the slow-accept server and the flood client, both of plain threads.

mod attempt;
mod clock;
mod descriptors;
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
