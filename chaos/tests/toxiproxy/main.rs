//! The parity suite: Toxiproxy's behaviours (P-rows) over real sockets, against our embedded server and, where it is
//! found, against a real Toxiproxy 2.12 (`real::…`, each test with a process of its own). `ci/provision toxiproxy`
//! brings it; without it those tests are listed as ignored.
//!
//! Clients of others (`toxiproxy-cli`; the clients for Go, with Toxiproxy's own tests, Python, Node and Java) drive both,
//! unchanged: `ci/provision clients`.
//!
//! # Where the two differ
//!
//! All of it on purpose. Tests about one server only are listed under `ours` or `real` in their module; what the real
//! one does in these rows is asserted in `differences`.
//!
//! | row | a real Toxiproxy | ours | why |
//! | --- | --- | --- | --- |
//! | P14 | `0.0.0.0` becomes `[::]`, so that a populate which says the same again replaces the proxy | stays `0.0.0.0`, and the proxy is left alone (P09) | what is asked for; connections survive |
//! | P15 | shows a proxy with a field `Logger`, always `{}`, and refuses one that is no object | no such field | it is there by mistake |
//! | P15 | writes `<`, `>`, `&`, U+2028 and U+2029 in answers as escapes (`\u003c`) | as they are | the same JSON |
//! | P16 | an escaped slash or dot in a path (`%2F`, `%2e%2e`) counts as a plain one, so that proxies of such names cannot be shown or deleted | is part of the name | what can be created can be removed |
//! | P19 | of a name that is unknown it tells which resolver said so, too (no test: it asks that resolver) | only that it is unknown | the system's resolver is asked, and does not tell |
//! | P36 | an upstream that is down: accept, then close | the same, or a reset if asked for | clients that retry only on a refusal |
//! | P46 P60 | a change on a link whose sink is full is not answered for 25 s, nor is any call after it | in effect at once | a heal must not hang |
//! | P53 P71 | `reset_peer` closes connections that were open before it, and resets later ones even after its removal | resets while it is there | the fault must be what its name says |
//! | P61 P62 P75 | `/metrics` is 404 without flags; bytes are counted when a connection ends | on in embedded use, counted while it is open | an effect that can be seen in time |
//! | P64 P67 | – | `strict`: `enabled` is applied, unknown attributes are refused | typing errors are found |
//! | P65 | toxics inside a created or populated proxy are ignored | in place before the port opens | no connection slips through |
//! | P68 | bad values are taken, and kill it once bytes flow; a refused update is half done; a name may be longer than any URL, a body as large as memory | 400, nothing changed | a proxy must outlive its users |
//! | P70 | – | `timeout` has a `deadline` that traffic does not put off | |
//! | – | `bandwidth` is per connection | per connection, or `shared` by those of the proxy | |
//! | – | a toxic is for all clients | for all, or for `clients` at an address or in a network | |
//! | P72 | a half-close closes both directions | is passed on as it is | clients that shut down and then read |
//! | P73 | the dial is inside the accept loop, without limit; nothing else of the proxy works meanwhile | a task and a limit of its own | |
//! | P74 | toxicity is drawn again when a neighbour changes; `-seed` has no effect (no test: it is chance) | drawn once, from the seed | runs that can be repeated |
//! | P76 | `/reset` stops at the first failure and does not say whose it was | goes on, names all | |
//! | P77 | a move to an address in use leaves the proxy disabled, with the new address | still listens on the old one, and says so | |
//! | P78 | a handler that takes 25 s is answered 503 without a body (no test: 25 s) | with a JSON error | |
//! | P79 | a bad `-config` file is logged | ends the start, unless `lenient` | |
//! | – | `packet_loss` (in newer versions) loses chunks, which corrupts the stream | refused with advice | |
//! | – | logs everything as JSON on standard output, unless `LOG_LEVEL` says less (no test here: `suites/tests/command/proxy.rs`) | from `LOG_LEVEL` on, `warn` unless set, as text on standard error | standard output is for results |
//! | – | – | toxics `hold`, `limit_time`, `connect_blackhole`, `connect_refuse`, `GET /proxies/{proxy}/effects`, `/leases` | a black hole that loses nothing; what a client meets before the dial; proof that a fault bit; faults that end by themselves |

mod addresses;
mod api;
mod bodies;
mod cli;
mod clients;
mod connections;
mod differences;
mod effects;
mod faults;
mod fixture;
mod guardian;
mod leases;
mod live;
mod mutations;
mod populate;
mod proxies;
mod reception;
mod toxics;
mod transfer;
mod trials;

use std::process::ExitCode;

use trials::Trials;

fn main() -> ExitCode {
    let mut all = Trials::default();
    for add in [
        addresses::trials,
        api::trials,
        bodies::trials,
        cli::trials,
        clients::trials,
        connections::trials,
        differences::trials,
        effects::trials,
        faults::trials,
        guardian::trials,
        leases::trials,
        live::trials,
        mutations::trials,
        populate::trials,
        proxies::trials,
        reception::trials,
        toxics::trials,
        transfer::trials,
    ] {
        add(&mut all);
    }
    all.run()
}
