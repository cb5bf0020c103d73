//! Tests that need no namespace: text fixtures, the command line, the pipeline on scripted observations, and
//! the rules of the house.

mod audit;
mod books;
mod causes;
mod claims;
mod cli;
#[path = "../support/contract.rs"]
mod contract;
mod corpus;
mod counters;
mod diff;
mod doctor;
mod ladder;
mod load;
mod pipeline;
mod requests;
mod schema;
mod staircase;
mod statuses;
mod store;
mod sysctl_files;
mod tidy;
mod tools;
mod trust;
mod words;
