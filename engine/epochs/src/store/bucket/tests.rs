use super::config::{OPTIONS, Provider, complete, options_of};
use super::*;
use crate::testkit::store_contract;
use object_store::ObjectStore;
use object_store::memory::InMemory;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A store over the client's own bucket in memory.
fn in_memory(inner: &Arc<InMemory>, url: &str) -> BucketStore {
    BucketStore::over(Arc::clone(inner) as Arc<dyn ObjectStore>, BucketUrl::parse(url).unwrap()).unwrap()
}

/// The address of a running server, for the tests that need one: `cargo xtask services up s3` says it.
fn server() -> BTreeMap<String, String> {
    let endpoint = std::env::var("TIDEGATE_TEST_S3").expect("TIDEGATE_TEST_S3 names no server; `cargo xtask services up s3` starts one");
    options(&[("endpoint", &endpoint), ("accessKeyId", "test"), ("secretAccessKey", "testsecret")])
}

/// The same for Azurite, whose account and key are the same everywhere. Its container `tidegate` must be there.
fn azurite() -> BTreeMap<String, String> {
    let endpoint =
        std::env::var("TIDEGATE_TEST_AZURE").expect("TIDEGATE_TEST_AZURE names no server: the address of Azurite's blob service");
    let key = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
    options(&[("endpoint", &format!("{endpoint}/devstoreaccount1")), ("account", "devstoreaccount1"), ("accountKey", key)])
}

fn options(given: &[(&str, &str)]) -> BTreeMap<String, String> {
    given.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
}

/// A prefix that no other test and no earlier run of this one has used.
fn own_prefix(test: &str) -> String {
    own_prefix_at("s3", test)
}

#[allow(clippy::disallowed_methods, reason = "the server outlives the test, so the name must differ from run to run")]
fn own_prefix_at(scheme: &str, test: &str) -> String {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos();
    format!("{scheme}://tidegate/{test}/{now}-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::SeqCst))
}

/// Conditional writes, and objects that travel in parts.
fn writes_on_a_condition_and_in_parts(store: &BucketStore) {
    store.prove("one").unwrap();
    let large: Vec<u8> = (0..2 * PART + 12_345).map(|at| (at % 251) as u8).collect();
    store.put("large", &large).unwrap();
    assert!(store.get("large").unwrap().unwrap() == large);
    store.put("large", b"small").unwrap();
    assert_eq!(store.get("large").unwrap().unwrap(), b"small");
    assert_eq!(store.list("").unwrap(), ["large"]);
}

#[test]
fn a_bucket_in_memory_keeps_the_contract() {
    store_contract(|| in_memory(&Arc::default(), "s3://bucket/some/prefix"));
    store_contract(|| in_memory(&Arc::default(), "gs://bucket"));
}

#[test]
#[ignore = "needs an S3 server: `cargo xtask services up s3`, and TIDEGATE_TEST_S3"]
fn s3_a_real_server_keeps_the_contract() {
    store_contract(|| BucketStore::open(&own_prefix("contract"), &server()).unwrap());
}

#[test]
#[ignore = "needs an S3 server: `cargo xtask services up s3`, and TIDEGATE_TEST_S3"]
fn s3_a_real_server_honours_conditional_writes_and_takes_large_objects_in_parts() {
    writes_on_a_condition_and_in_parts(&BucketStore::open(&own_prefix("parts"), &server()).unwrap());
}

#[test]
#[ignore = "needs an S3 server: `cargo xtask services up s3`, and TIDEGATE_TEST_S3"]
fn s3_a_missing_bucket_and_a_wrong_secret_are_told_apart_and_the_secret_is_not_shown() {
    let error = BucketStore::open("s3://no-such-bucket/x", &server()).unwrap().list("").unwrap_err().to_string();
    assert!(error.contains("create the bucket `no-such-bucket`"), "{error}");
    let error = BucketStore::open("s3://no-such-bucket/x", &server()).unwrap().get("a").unwrap_err().to_string();
    assert!(error.contains("`no-such-bucket`") && error.contains("`a`"), "{error}");
    let mut options = server();
    options.insert("secretAccessKey".into(), "not-the-secret".into());
    let error = BucketStore::open("s3://tidegate/x", &options).unwrap().put("a/b", b"1").unwrap_err().to_string();
    assert!(error.contains("cannot write `a/b` in bucket `tidegate`") && error.contains("check `accessKeyId`"), "{error}");
    assert!(!error.contains("not-the-secret"), "{error}");
}

#[test]
#[ignore = "needs Azurite (`npx azurite-blob --skipApiVersionCheck`) with a container `tidegate`, and TIDEGATE_TEST_AZURE"]
fn azure_a_server_of_its_protocol_keeps_the_contract() {
    let open = |test: &str| BucketStore::open(&own_prefix_at("az", test), &azurite()).unwrap();
    store_contract(|| open("contract"));
    writes_on_a_condition_and_in_parts(&open("parts"));
}

#[test]
fn a_server_that_ignores_the_condition_is_refused() {
    #[derive(Debug)]
    struct Careless(InMemory);
    impl fmt::Display for Careless {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("careless")
        }
    }
    #[async_trait::async_trait]
    impl ObjectStore for Careless {
        async fn put_opts(&self, to: &Path, body: PutPayload, _: PutOptions) -> object_store::Result<object_store::PutResult> {
            self.0.put_opts(to, body, PutOptions::default()).await
        }
        async fn put_multipart_opts(
            &self,
            to: &Path,
            options: object_store::PutMultipartOptions,
        ) -> object_store::Result<Box<dyn object_store::MultipartUpload>> {
            self.0.put_multipart_opts(to, options).await
        }
        async fn get_opts(&self, from: &Path, options: GetOptions) -> object_store::Result<object_store::GetResult> {
            self.0.get_opts(from, options).await
        }
        fn delete_stream(
            &self,
            paths: futures::stream::BoxStream<'static, object_store::Result<Path>>,
        ) -> futures::stream::BoxStream<'static, object_store::Result<Path>> {
            self.0.delete_stream(paths)
        }
        fn list(&self, prefix: Option<&Path>) -> futures::stream::BoxStream<'static, object_store::Result<object_store::ObjectMeta>> {
            self.0.list(prefix)
        }
        async fn list_with_delimiter(&self, prefix: Option<&Path>) -> object_store::Result<object_store::ListResult> {
            self.0.list_with_delimiter(prefix).await
        }
        async fn copy_opts(&self, from: &Path, to: &Path, options: object_store::CopyOptions) -> object_store::Result<()> {
            self.0.copy_opts(from, to, options).await
        }
    }
    let url = BucketUrl::parse("s3://bucket").unwrap();
    let store = BucketStore::over(Arc::new(Careless(InMemory::new())), url).unwrap();
    let error = store.prove("one").unwrap_err().to_string();
    assert!(error.contains("ignores conditional writes"), "{error}");
    in_memory(&Arc::default(), "s3://bucket").prove("one").unwrap();
}

#[test]
fn two_prefixes_of_one_bucket_do_not_see_each_other() {
    let bucket = Arc::new(InMemory::new());
    let (one, other, above) = (in_memory(&bucket, "s3://b/one"), in_memory(&bucket, "s3://b/one-more"), in_memory(&bucket, "s3://b"));
    one.put("a/%2E=+@~", b"1").unwrap();
    other.put("a/x", b"2").unwrap();
    assert_eq!(one.list("").unwrap(), ["a/%2E=+@~"]);
    assert_eq!(one.get("a/x").unwrap(), None);
    assert_eq!(above.list("").unwrap(), ["one-more/a/x", "one/a/%2E=+@~"]);
    one.delete("a/%2E=+@~").unwrap();
    assert_eq!(other.get("a/x").unwrap(), Some(b"2".to_vec()));
}

#[test]
fn a_large_object_travels_in_parts_and_comes_back_whole() {
    let store = in_memory(&Arc::default(), "s3://b/p");
    let large: Vec<u8> = (0..PART + PART / 2).map(|at| (at % 253) as u8).collect();
    store.put("large", &large).unwrap();
    assert!(store.get("large").unwrap().unwrap() == large);
}

#[test]
fn a_call_may_come_from_an_executors_thread_and_the_store_may_end_there() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let store = in_memory(&Arc::default(), "s3://b/p");
        store.put("a", b"1").unwrap();
        assert_eq!(store.get("a").unwrap(), Some(b"1".to_vec()));
    });
}

#[test]
fn a_server_that_is_not_there_is_given_up_on_and_named() {
    // A port that was free a moment ago; nobody listens.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let options: BTreeMap<String, String> =
        [("endpoint", format!("http://127.0.0.1:{port}")), ("accessKeyId", "k".into()), ("secretAccessKey", "very-secret".into())]
            .map(|(name, value)| (name.to_string(), value))
            .into();
    let store = BucketStore::open("s3://bucket/prefix", &options).unwrap();
    let error = store.get("marks/1").unwrap_err();
    assert!(matches!(error.kind(), tidegate_api::ErrorKind::External { .. }), "{error:?}");
    let text = error.to_string();
    for part in ["cannot read `marks/1`", "bucket `bucket`", "s3://bucket/prefix", "check `endpoint`"] {
        assert!(text.contains(part), "{part} is missing in {text}");
    }
    assert!(!format!("{error:?} {store:?}").contains("very-secret"), "{error:?}");
}

#[test]
fn addresses_are_read_or_refused_with_the_right_form() {
    let url = BucketUrl::parse("s3://bucket/a/b/").unwrap();
    assert_eq!((url.provider(), url.bucket(), url.prefix(), url.to_string().as_str()), (Provider::S3, "bucket", "a/b", "s3://bucket/a/b"));
    assert_eq!(BucketUrl::parse("az://box").unwrap().to_string(), "az://box");
    for (text, part) in [
        ("bucket", "is no address"),
        ("s4://bucket", "did you mean `s3`?"),
        ("s3://", "no name of a bucket"),
        ("s3://b/../c", "is no prefix"),
        ("s3://key:topsecret@b", "neither credentials nor options"),
    ] {
        let error = BucketUrl::parse(text).unwrap_err();
        assert!(error.contains(part) && error.contains("s3://BUCKET/PREFIX") || part == "is no prefix" && error.contains(part), "{error}");
        assert!(!error.contains("topsecret"), "{error}");
    }
}

#[test]
fn every_option_is_known_to_its_client_and_a_slip_is_refused() {
    for (address, provider) in [("s3://b", Provider::S3), ("gs://b", Provider::Gcs), ("az://b", Provider::Azure)] {
        for option in options_of(provider) {
            let options = BTreeMap::from([(option.name.to_string(), "true".to_string())]);
            if let Err(error) = BucketStore::open(address, &options) {
                assert!(!error.to_string().contains("knows no option"), "{error}");
            }
        }
    }
    let error = BucketStore::open("s3://b", &BTreeMap::from([("regoin".to_string(), "x".to_string())])).unwrap_err().to_string();
    assert!(error.contains("did you mean `region`?"), "{error}");
}

#[test]
fn the_environment_fills_in_what_the_file_leaves_out() {
    let url = BucketUrl::parse("s3://b").unwrap();
    let mut options = BTreeMap::from([("region".to_string(), "here".to_string())]);
    complete(&url, &mut options, &|name| match name {
        "AWS_REGION" => Some("there".into()),
        "AWS_ENDPOINT_URL" => Some("http://x".into()),
        "AWS_SESSION_TOKEN" => Some(String::new()),
        _ => None,
    });
    let expected = [("endpoint", "http://x"), ("region", "here")].map(|(name, value)| (name.to_string(), value.to_string()));
    assert_eq!(options, expected.into());
    assert!(OPTIONS.iter().all(|option| option.secret == ["ecret", "oken", "Key"].iter().any(|sign| option.name.ends_with(sign))));
}
