"""ConversionReviews and AdmissionReviews as data: the requests of API servers, and the answers that they accept."""
