//! The two ends of an experiment: the slow-accept server and the flood client, both of plain threads.

mod attempt;
mod caller;
mod clock;
mod conversation;
mod flood;
mod http;
mod interrupt;
mod pace;
mod server;
mod target;

pub use clock::Clock;
pub use flood::{Flood, FloodError, Harvest};
pub use interrupt::Interrupt;
pub use server::{Server, ServerError, ServerLog};
pub use target::{Progress, Target};
