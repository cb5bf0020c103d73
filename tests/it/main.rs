//! Tests that need no namespace: text fixtures, the command line, the pipeline on scripted observations, and
//! the rules of the house.

mod audit;
mod books;
mod causes;
mod claims;
mod cli;
mod corpus;
mod counters;
mod diff;
mod doctor;
mod ladder;
mod pipeline;
mod schema;
mod staircase;
mod statuses;
mod sysctl_files;
mod tidy;
mod tools;
mod trust;
