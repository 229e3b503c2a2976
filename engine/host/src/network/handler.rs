//! Sending requests: `wasi:http`'s own handler, which keeps the options of every request for ever, and then lets go of what it kept.

use crate::state::State;
use wasmtime::StoreContextMut;
use wasmtime::component::{Linker, Resource};
use wasmtime_wasi_http::p2::bindings::http::{outgoing_handler, types};
use wasmtime_wasi_http::p2::types::{HostFutureIncomingResponse, HostOutgoingRequest};
use wasmtime_wasi_http::{RequestOptions, WasiHttpView};

/// The interface under the name that the linker has it by.
const HANDLER: &str = "wasi:http/outgoing-handler@0.2.12";

/// What the interface's one function is given.
type Given = (Resource<HostOutgoingRequest>, Option<Resource<RequestOptions>>);
/// And what it answers.
type Answer = (Result<Resource<HostFutureIncomingResponse>, types::ErrorCode>,);

/// Puts this handler in the place of the other one.
pub(crate) fn link(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    linker.instance(HANDLER)?.func_wrap("handle", |mut store: StoreContextMut<'_, State>, given: Given| handle(store.data_mut(), given))
}

fn handle(state: &mut State, (request, options): Given) -> wasmtime::Result<Answer> {
    let given = options.as_ref().map(Resource::rep);
    let mut view = state.http();
    let answer = outgoing_handler::Host::handle(&mut view, request, options);
    // They are the host's now, and copied into the request. A guest that sends thousands would run out of handles.
    if let Some(given) = given {
        view.table.delete(Resource::<RequestOptions>::new_own(given))?;
    }
    match answer {
        Ok(answer) => Ok((Ok(answer),)),
        Err(error) => Ok((Err(types::Host::convert_error_code(&mut view, error)?),)),
    }
}
