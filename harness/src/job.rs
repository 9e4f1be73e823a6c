//! What a test job is written with: the bundled engine's job graph and user-code traits.

pub use stormproof_chaos::fault::fault_file_name;
pub use stormproof_coordinator::graph::{
    Collector, JobGraph, JobGraphBuilder, JobGraphError, JobId, JobKind, JobRegistry, Operator, ParamError, Params,
    Record, ResultPartitionType, ShipStrategy, Source, SourceStatus, Split, SplitSource, TaskContext, TaskError,
    TaskInfo, VertexHandle,
};
