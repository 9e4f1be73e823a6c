mod examples;
mod growth;
mod model;
mod parity;
mod properties;
