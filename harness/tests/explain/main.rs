//! `stormproof explain`: real Flink's answers, the independent model, and bad input.

mod bad_input;
mod builder;
mod live;
mod model;
mod samples;
