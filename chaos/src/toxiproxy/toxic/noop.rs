//! `noop`: passes everything.

use std::time::Duration;

use serde::Serialize;

use super::{Attributes, Event, Output, Toxic};

/// No attributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Noop {}

/// See the module.
#[derive(Debug)]
pub(super) struct NoopToxic;

impl Toxic for NoopToxic {
    fn on_event(&mut self, _now: Duration, event: Event, out: &mut Output) {
        out.events.push(event);
    }

    fn update(&mut self, _now: Duration, _attributes: &Attributes) {}

    fn release(&mut self, _now: Duration, _out: &mut Output) {}
}
