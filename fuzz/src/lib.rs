//! Fuzz targets. Each takes any bytes and panics where a promise is broken: a mistake is an error with a place, a bad message costs
//! itself, and nothing ends the process. `cargo xtask fuzz` runs them under libFuzzer; the tests here run their seeds.

mod expressions;

pub use expressions::expressions;

/// Bytes as JSON messages: the learned layouts and the full parser must agree.
pub fn json(data: &[u8]) {
    tidegate_connectors::fuzz::json(data);
}

/// Bytes as a CSV file, cut into buffers anywhere.
pub fn csv(data: &[u8]) {
    tidegate_connectors::fuzz::csv(data);
}

/// Bytes as Avro messages and as an object container file.
pub fn avro(data: &[u8]) {
    tidegate_connectors::fuzz::avro(data);
}

/// Bytes as Protobuf messages.
pub fn protobuf(data: &[u8]) {
    tidegate_connectors::fuzz::protobuf(data);
}

/// Bytes as what a guest hands over: a schema message and a record batch.
pub fn ipc(data: &[u8]) {
    tidegate_host::fuzz::ipc(data);
}

/// Bytes as a plugin's file.
pub fn component(data: &[u8]) {
    tidegate_host::fuzz::component(data);
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    /// Runs a target over its seeds; there must be some.
    fn run(name: &str, target: fn(&[u8])) {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds").join(name);
        let seeds: Vec<_> = std::fs::read_dir(&folder).expect("the target has seeds").map(|entry| entry.expect("a file").path()).collect();
        assert!(!seeds.is_empty(), "`{}` is empty", folder.display());
        for seed in seeds {
            target(&std::fs::read(&seed).expect("a file that can be read"));
        }
    }

    #[test]
    fn seeds_of_expressions() {
        run("expressions", super::expressions);
    }

    #[test]
    fn seeds_of_json() {
        run("json", super::json);
    }

    #[test]
    fn seeds_of_csv() {
        run("csv", super::csv);
    }

    #[test]
    fn seeds_of_avro() {
        run("avro", super::avro);
    }

    #[test]
    fn seeds_of_protobuf() {
        run("protobuf", super::protobuf);
    }

    #[test]
    fn seeds_of_ipc() {
        run("ipc", super::ipc);
    }

    #[test]
    fn seeds_of_component() {
        run("component", super::component);
    }
}
