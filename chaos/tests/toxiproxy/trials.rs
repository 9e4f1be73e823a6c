//! The list of tests, each against the servers it is about.

use std::future::Future;
use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};
use stormproof_chaos::part::RealPart;

use crate::fixture::Server;

/// Lists the tests of a module: those that hold for both servers, those about ours, those about the real one.
#[macro_export]
macro_rules! trials {
    ($(both: [$($both:ident),*])? $(ours: [$($ours:ident),*])? $(real: [$($real:ident),*])?) => {
        pub(crate) fn trials(trials: &mut $crate::trials::Trials) {
            let module = module_path!();
            $($(trials.both(module, stringify!($both), $both);)*)?
            $($(trials.ours(module, stringify!($ours), $ours);)*)?
            $($(trials.real(module, stringify!($real), $real);)*)?
        }
    };
}

/// All tests so far.
#[derive(Default)]
pub(crate) struct Trials(Vec<Trial>);

impl Trials {
    pub(crate) fn both<F>(&mut self, module: &str, name: &str, test: fn(Server) -> F)
    where
        F: Future<Output = ()> + 'static,
    {
        self.ours(module, name, move || test(Server::Ours));
        self.real(module, name, move || test(Server::Real));
    }

    pub(crate) fn ours<F>(&mut self, module: &str, name: &str, test: impl FnOnce() -> F + Send + 'static)
    where
        F: Future<Output = ()> + 'static,
    {
        self.add(path(module, name), &[], test);
    }

    pub(crate) fn real<F>(&mut self, module: &str, name: &str, test: impl FnOnce() -> F + Send + 'static)
    where
        F: Future<Output = ()> + 'static,
    {
        self.add(format!("real::{}", path(module, name)), &[RealPart::ToxiproxyServer], test);
    }

    /// A test of both servers that needs a program besides.
    pub(crate) fn both_with<F>(&mut self, module: &str, name: &str, part: RealPart, test: fn(Server) -> F)
    where
        F: Future<Output = ()> + 'static,
    {
        let path = path(module, name);
        self.add(format!("real::{path}"), &[part, RealPart::ToxiproxyServer], move || test(Server::Real));
        self.add(path, &[part], move || test(Server::Ours));
    }

    /// A test that is ignored where one of `needs` is not found: what it is listed with says what brings it.
    pub(crate) fn add<F>(&mut self, name: String, needs: &[RealPart], test: impl FnOnce() -> F + Send + 'static)
    where
        F: Future<Output = ()> + 'static,
    {
        let trial = Trial::test(name, move || {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
            runtime.block_on(test());
            Ok(())
        });
        self.0.push(match needs.iter().find(|part| part.find().is_err()) {
            None => trial,
            Some(part) => trial.with_kind(format!("needs {}", part.provision())).with_ignored_flag(true),
        });
    }

    pub(crate) fn run(self) -> ExitCode {
        libtest_mimic::run(&Arguments::from_args(), self.0).exit_code()
    }
}

/// `crate::module` and `name` as libtest would write them.
fn path(module: &str, name: &str) -> String {
    let module = module.split_once("::").map_or(module, |(_, module)| module);
    format!("{module}::{name}")
}
