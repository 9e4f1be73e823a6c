//! A process that does nothing, and to which something is done.

use std::process::{Child, Command, Stdio};

use super::state;

/// Lives until its test ends.
pub(crate) struct Bystander(Child);

impl Bystander {
    pub(crate) fn start() -> Self {
        Self(Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap())
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }

    pub(crate) fn is_stopped(&self) -> bool {
        state(self.pid()) == Some('T')
    }
}

impl Drop for Bystander {
    fn drop(&mut self) {
        // Killed already by a test that is about that.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
