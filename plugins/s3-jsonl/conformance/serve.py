"""A small S3: one bucket with multipart uploads, in path style. Only what the sink asks for, and strict about it.

It keeps objects in target/conformance/objects, their marks in marks, and uploads that were begun in uploads, so removing the folder
empties it. The first line printed says where it listens. It ends when its standard input does.
"""
import hashlib
import json
import os
import re
import shutil
import sys
import threading
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, quote, unquote, urlsplit

FOLDER = "target/conformance"
MARK = "x-amz-meta-tidegate"
LEAST_PART = 5 << 20
# Uploads in a page of a list: few, so that there are pages.
PAGE = 2
one_at_a_time = threading.Lock()


def path(kind, name):
    os.makedirs(f"{FOLDER}/{kind}", exist_ok=True)
    return f"{FOLDER}/{kind}/{quote(name, safe='')}"


def read(file):
    with open(file, "rb") as opened:
        return opened.read()


def write(file, content):
    with open(file, "wb") as opened:
        opened.write(content)


def etag(content):
    return f'"{hashlib.md5(content).hexdigest()}"'


def refused(status, code):
    return status, {}, f"<Error><Code>{code}</Code><Message>it is so</Message></Error>"


class Bucket(BaseHTTPRequestHandler):
    def serve(self):
        url = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(url.query, keep_blank_values=True).items()}
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        with one_at_a_time:
            status, headers, content = self.answer(unquote(url.path), query, body)
        content = content.encode()
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = serve

    def answer(self, target, query, body):
        signed = self.headers.get("Authorization", "").startswith("AWS4-HMAC-SHA256 Credential=test/")
        if not signed or "x-amz-date" not in self.headers:
            return refused(403, "AccessDenied")
        _, bucket, *key = target.split("/", 2)
        key = key[0] if key else ""
        if bucket != "bucket":
            return refused(404, "NoSuchBucket")
        if self.command == "GET" and "uploads" in query:
            return self.list(query)
        if self.command == "HEAD":
            found = os.path.exists(path("objects", key))
            return (200, {MARK: read(path("marks", key)).decode()}, "") if found else (404, {}, "")
        if self.command == "POST" and "uploads" in query:
            return self.begin(key)
        upload = path("uploads", query.get("uploadId", "none"))
        if not os.path.exists(upload) or read(f"{upload}/key").decode() != key:
            return refused(404, "NoSuchUpload")
        if self.command == "PUT":
            write(f"{upload}/{int(query['partNumber'])}", body)
            return 200, {"ETag": etag(body)}, ""
        if self.command == "DELETE":
            shutil.rmtree(upload)
            return 204, {}, ""
        return self.complete(key, upload, body.decode())

    def begin(self, key):
        upload = uuid.uuid4().hex
        os.makedirs(path("uploads", upload))
        write(f"{path('uploads', upload)}/key", key.encode())
        write(f"{path('uploads', upload)}/mark", self.headers.get(MARK, "").encode())
        return 200, {}, f"<InitiateMultipartUploadResult><UploadId>{upload}</UploadId></InitiateMultipartUploadResult>"

    def complete(self, key, upload, body):
        named = re.findall(r"<PartNumber>(\d+)</PartNumber><ETag>(.*?)</ETag>", body)
        parts = []
        for index, (number, tag) in enumerate(named, 1):
            file = f"{upload}/{number}"
            if int(number) != index or not os.path.exists(file) or etag(read(file)) != tag.replace("&quot;", '"'):
                return refused(400, "InvalidPart")
            parts.append(read(file))
        if any(len(part) < LEAST_PART for part in parts[:-1]):
            return refused(400, "EntityTooSmall")
        write(path("marks", key), read(f"{upload}/mark"))
        write(path("objects", key), b"".join(parts))
        shutil.rmtree(upload)
        return 200, {}, "<CompleteMultipartUploadResult></CompleteMultipartUploadResult>"

    def list(self, query):
        uploads = path("uploads", "")
        begun = sorted((read(f"{uploads}{upload}/key").decode(), upload) for upload in os.listdir(uploads))
        after = (query.get("key-marker", ""), query.get("upload-id-marker", ""))
        begun = [upload for upload in begun if upload[0].startswith(query.get("prefix", "")) and upload > after]
        page, more = begun[:PAGE], len(begun) > PAGE
        body = f"<IsTruncated>{str(more).lower()}</IsTruncated>"
        body += "".join(f"<Upload><Key>{key}</Key><UploadId>{upload}</UploadId></Upload>" for key, upload in page)
        if more:
            body += f"<NextKeyMarker>{page[-1][0]}</NextKeyMarker><NextUploadIdMarker>{page[-1][1]}</NextUploadIdMarker>"
        return 200, {}, f"<ListMultipartUploadsResult>{body}</ListMultipartUploadsResult>"

    def log_message(self, *arguments):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Bucket)
print(json.dumps({"url": f"http://127.0.0.1:{server.server_port}"}), flush=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
sys.stdin.read()
os._exit(0)
